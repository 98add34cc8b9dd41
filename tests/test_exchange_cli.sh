#!/usr/bin/env bash
# export, import and train --init from outside: a run goes out as a Hugging Face folder and comes back with the same weights, a new
# run starts from it, and what cannot be is said. PACER names the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

model=(--model gpt2-124m --layers 1 --d-model 32 --heads 2 --ffn 48 --vocab 300 --context 32)
train=(train --data builtin:bytes --batch 2 --eval-every 0 --threads 1 --quiet)

"$PACER" "${train[@]}" "${model[@]}" --steps 2 --out run >out 2>err || fail "train ended with $?"

# What somebody else keeps under the name that pacer would use is left alone, and so is what a link points to.
mkdir -p hf.partial/made-by-pacer elsewhere && echo mine >hf.partial/notes && echo mine >elsewhere/notes
expect 2 "hf.partial/notes is in the way" export run --out hf
[[ $(cat hf.partial/notes) == mine && ! -e hf ]] || fail "hf.partial was touched"
rm -r hf.partial && ln -s elsewhere hf.partial
expect 2 "hf.partial is in the way" export run --out hf
[[ $(cat elsewhere/notes) == mine && -L hf.partial ]] || fail "what hf.partial points to was touched"
rm hf.partial && echo mine >hf.partial
expect 2 "hf.partial is in the way" export run --out hf
[[ $(cat hf.partial) == mine ]] || fail "the file hf.partial was touched"
rm hf.partial && ln -s elsewhere hf
expect 2 "is a link" export run --out hf
rm hf

# What a killed export left is removed by the next one, links in it as links.
mkdir -p hf.partial/made-by-pacer/sub && echo half >hf.partial/made-by-pacer/model.safetensors
ln -s ../../elsewhere hf.partial/made-by-pacer/link
expect 0 "the model of run/ckpt/latest" export run --out hf/
[[ ! -e hf.partial ]] || fail "hf.partial is still there"
[[ $(cat elsewhere/notes) == mine ]] || fail "a link was followed"
for file in config.json model.safetensors tokenizer.json tokenizer_config.json generation_config.json; do
    [[ -s hf/$file ]] || fail "export wrote no $file"
done
cmp -s run/tokenizer.json hf/tokenizer.json || fail "the tokenizer is another one"
expect 2 "is not empty" export run --out hf
expect 2 "needs --out" export run
expect 2 "neither a run directory" export . --out x
expect 2 "an export is hf, gguf, csv or tensorboard" export run --format text --out x
expect 2 "--dtype is of --format hf" export run --format gguf --dtype bf16 --out x
[[ ! -e x && ! -e x.partial ]] || fail "a refused export left something"

# A GGUF file, which test_gguf.c reads: it comes whole, and replaces nothing.
expect 0 "x.gguf: the model of run/ckpt/latest for llama.cpp" export run --format gguf --out x.gguf
expect 2 "x.gguf: exists" export run --format gguf --out x.gguf
expect 0 "q.gguf: the model" export run --format gguf --type q8_0 --out q.gguf
[[ $(head -c 4 x.gguf) == GGUF && $(stat -c %s q.gguf) -lt $(stat -c %s x.gguf) ]] || fail "GGUF files"
expect 2 "cannot" export run --format gguf --out missing/x.gguf

expect 0 "as --model gpt2-124m" import hf --out imported
cmp -s run/ckpt/latest/model.safetensors imported/ckpt/latest/model.safetensors || fail "weights changed on the way"
expect 2 "is a run of pacer's already" import run --out y
expect 2 "is not empty" import hf --out imported

# All three begin a text with the same token, so that the same seed gives the same text.
for model_of in run hf imported; do
    "$PACER" generate $model_of --prompt 'Once' --max-tokens 40 --seed 5 --threads 1 >text-$model_of 2>err || fail "generate $model_of"
done
cmp -s text-run text-hf && cmp -s text-run text-imported || fail "run, export and import write different texts"
sed 's/"add_bos_token":.*/"add_bos_token": false,/' hf/tokenizer_config.json >plain.json && cp -r hf plain && cp plain.json plain/tokenizer_config.json
"$PACER" generate plain --prompt 'Once' --max-tokens 40 --seed 5 --threads 1 >text-plain 2>err || fail "generate plain"
cmp -s text-run text-plain && fail "tokenizer_config.json has no effect"
# Where tokenizer_config.json says nothing, the template of tokenizer.json does.
rm plain/tokenizer_config.json
sed 's/"post_processor": null/"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}/' \
    hf/tokenizer.json >plain/tokenizer.json
"$PACER" generate plain --prompt 'Once' --max-tokens 40 --seed 5 --threads 1 >text-plain 2>err || fail "generate with a template"
cmp -s text-run text-plain || fail "the template of tokenizer.json has no effect"

# What else a tokenizer came with goes out again: the token that ends its texts, and its chat template.
cp -r hf chat && echo "{{ messages }}" >chat/chat_template.jinja
sed 's/\("special": true}\)$/\1,\n    {"id": 257, "content": "<|im_end|>", "special": true}/' hf/tokenizer.json >chat/tokenizer.json
sed 's/"eos_token":.*/"eos_token": "<|im_end|>",/' hf/tokenizer_config.json >chat/tokenizer_config.json
expect 0 "as --model gpt2-124m" import chat --out chat-run
expect 0 "the model of chat-run/ckpt/latest" export chat-run --out chat-out
grep -q '"eos_token_id":[[:space:]]*257' chat-out/config.json && grep -q '"eos_token_id":[[:space:]]*257' chat-out/generation_config.json ||
    fail "another token ends texts of the exported model"
"$PACER" generate chat-run --prompt a --samples 4 --temperature 9 --max-tokens 9000 --threads 1 --json chat.json >out 2>err || fail "generate chat-run"
[[ $(grep -c '[^0-9]257\],$' chat.json) == 4 ]] || fail "texts end at another token"
# What comes before every text of an imported model does so in an evaluation.
cp -r chat-run begun && sed 's/"add_bos_token":.*/"add_bos_token": true,/; s/"bos_token":.*/"bos_token": "<|im_end|>",/' \
    chat/tokenizer_config.json >begun/tokenizer_config.json
sed 's/"add_bos_token":.*/"add_bos_token": false,/' chat/tokenizer_config.json >chat-run/tokenizer_config.json
for model_of in begun chat-run; do
    echo a | "$PACER" eval $model_of - --threads 1 2>err | grep '^loss' >loss-$model_of || fail "eval $model_of"
done
cmp -s loss-begun loss-chat-run && fail "eval does not begin with the bos_token"
cmp -s chat/chat_template.jinja chat-out/chat_template.jinja || fail "the chat template is lost"
expect 0 "chat.gguf: the model" export chat-run --format gguf --out chat.gguf
grep -q "{{ messages }}" chat.gguf || fail "the chat template is not in the GGUF file"

expect 0 "sharded: the model" export imported --out sharded --shard-bytes 10k
[[ -s sharded/model.safetensors.index.json && -s sharded/model-00001-of-00006.safetensors ]] || fail "no shards: $(ls sharded)"
expect 0 "low: the model" export run/ckpt/step-2 --out low --dtype bf16
grep -q '"bfloat16"' low/config.json || fail "no bfloat16 in config.json"

expect 2 "no optimizer state" "${train[@]}" "${model[@]}" --steps 2 --resume imported --out z
expect 2 "give --ffn 48" "${train[@]}" "${model[@]/48/64}" --steps 1 --init hf --out z
expect 2 "give --model gpt2-124m" "${train[@]}" --model tiny --steps 1 --init hf --out z
# Another preset of the same kind is not taken either, and the record would name it.
expect 2 "its layers is 1, --model gpt2-350m makes it 24: leave --model out" "${train[@]}" \
    --model gpt2-350m --steps 1 --init hf --out z
expect 2 "is no folder" "${train[@]}" "${model[@]}" --steps 1 --init gone --out z
[[ ! -e z ]] || fail "a refused run left its folder: $(ls z)"
mkdir z && expect 2 "is no folder" "${train[@]}" "${model[@]}" --steps 1 --init gone --out z
[[ -d z ]] && rm -r z || fail "a refused run took a folder away that was there"
"$PACER" "${train[@]}" "${model[@]/gpt2-124m/gpt2-350m}" --steps 1 --init hf --out named >out 2>err ||
    fail "--model of another preset, every size of which is given"
# The first loss of a run that starts from the weights is what they are worth, and is the same from every form of them.
first_loss() { sed -n '1s/.*"loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl"; }
for from in run sharded; do
    "$PACER" "${train[@]}" "${model[@]}" --steps 1 --lr 3e-4 --log-every 1 --init $from --out from-$from >out 2>err || fail "--init $from"
done
grep -q '"init":[[:space:]]*"sharded"' from-sharded/run.json || fail "run.json does not say where the weights came from"
[[ -n $(first_loss from-run) && $(first_loss from-run) == "$(first_loss from-sharded)" ]] ||
    fail "first losses $(first_loss from-run), $(first_loss from-sharded)"
cmp -s from-run/ckpt/latest/model.safetensors from-sharded/ckpt/latest/model.safetensors || fail "--init: other weights"
# The dimensions are the model's unless given; once it has a checkpoint the run goes on also when the folder is gone.
for from in run sharded; do
    "$PACER" "${train[@]}" --steps 1 --lr 3e-4 --log-every 1 --init $from --out dims-$from || fail "train ended with $?"
    cmp -s from-run/ckpt/latest/model.safetensors dims-$from/ckpt/latest/model.safetensors || fail "--init $from: other dimensions or weights"
done
first_checked() { grep -q '"name":[[:space:]]*"first_loss"' "$1/run.json"; }
first_checked run || fail "fresh weights are not held against ln(vocabulary)"
first_checked dims-run && fail "trained weights are held against ln(vocabulary)"
"$PACER" check dims-run >out 2>err || fail "check of a run that began with --init"
grep -q 'first_loss' out && fail "check holds trained weights against ln(vocabulary)"
"$PACER" tokenizer train --vocab 280 --out own.json builtin:stories:50k >out 2>err &&
    "$PACER" data prepare --tokenizer own.json --out own builtin:stories:50k >out 2>err ||
    fail "data of another tokenizer"
expect 0 'another tokenizer than that of --init run' train --data own --init run --steps 1 --batch 2 \
    --threads 1 --out other
grep -q '"ffn":[[:space:]]*48' dims-run/run.json || fail "run.json does not have the model's dimensions"
cp -r sharded gone
"$PACER" "${train[@]}" "${model[@]}" --steps 1 --init gone --out went || fail "train ended with $?"
rm -r gone
"$PACER" "${train[@]}" "${model[@]}" --steps 2 --init gone --out went 2>err || fail "train ended with $?"
grep -q 'Going on' err && fail "dimensions that are the same are told as changes"
expect 2 '--init' "${train[@]}" --steps 1 --init gone --out never

# A byte that was changed is noticed.
printf 'x' | dd of=run/ckpt/step-2/model.safetensors bs=1 seek=9000 conv=notrunc 2>/dev/null
expect 2 "changed or damaged" export run --out w
exit $failed
