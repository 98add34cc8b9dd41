# Loss curve of a run directory: gnuplot -e "run='demo/run'; out='docs/img/demo-loss.svg'" docs/img/demo-loss.gp
set terminal svg size 720,360 font "sans,13" background rgb "white"
set output out
set xlabel "step"
set ylabel "loss (nats per byte)"
set grid ytics lc rgb "#dddddd"
set key top right
field(name) = sprintf("<sed -n 's/.*\"step\":\\([0-9]*\\).*\"%s\":\\([0-9.]*\\).*/\\1 \\2/p' %s/metrics.jsonl", name, run)
plot field("loss") using 1:2 with lines lw 2 lc rgb "#1f77b4" title "train", \
     field("val_loss") using 1:2 with linespoints pt 7 lw 2 lc rgb "#d62728" title "validation"
