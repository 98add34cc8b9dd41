#include "data/stories_words.h"

/* clang-format off */

const StoryContent *const stories_content[] = {
    &stories_words, &stories_synonyms, &stories_people, &stories_animals, &stories_things,
    &stories_places, &stories_beats, &stories_moods, &stories_plots_lost, &stories_plots_friend,
    &stories_plots_broken, &stories_plots_fear, &stories_plots_sharing, &stories_plots_race,
    &stories_plots_storm, &stories_plots_visit, &stories_plots_helping, &stories_plots_growing,
    &stories_plots_sound, &stories_plots_surprise, &stories_plots_kitchen, &stories_plots_truth,
    &stories_plots_building, &stories_plots_wish, &stories_plots_toys, &stories_plots_sleep,
    &stories_plots_errand, NULL};

static const StoryRule rules[] = {
    /* Feelings: fit behind "was" and "felt". */
    {"happy", STORY_LIST(
        "happy", "glad", "very happy", "so happy", "cheerful", "delighted", "full of joy",
        "thrilled", "merry", "as happy as could be", "pleased", "overjoyed",
        "happy and warm inside",
        "happier than ever")},
    {"sad", STORY_LIST(
        "sad", "very sad", "unhappy", "upset", "gloomy", "so sad", "close to tears", "miserable",
        "a little sad", "terribly sad", "lonely and sad", "downhearted")},
    {"scared", STORY_LIST(
        "scared", "afraid", "frightened", "very scared", "a little scared", "nervous", "worried",
        "shaky", "alarmed", "anxious", "too scared to move", "rather nervous")},
    {"angry", STORY_LIST(
        "angry", "cross", "mad", "grumpy", "annoyed", "very cross", "furious",
        "so angry", "in a bad mood")},
    {"proud", STORY_LIST(
        "proud", "very proud", "so proud", "prouder than ever",
        "proud and happy", "as proud as a peacock", "pleased and proud")},
    {"tired", STORY_LIST(
        "tired", "sleepy", "worn out", "very tired", "weary", "ready for bed", "exhausted",
        "so tired")},
    {"surprised", STORY_LIST(
        "surprised", "amazed", "astonished", "very surprised", "puzzled", "speechless", "startled",
        "so surprised")},
    {"excited", STORY_LIST(
        "excited", "very excited", "too excited to sit still", "full of excitement", "eager",
        "wide awake with excitement", "so excited", "thrilled")},
    {"sorry", STORY_LIST(
        "sorry", "very sorry", "ashamed", "terrible", "bad", "guilty", "awful", "truly sorry")},
    {"calm", STORY_LIST("calm", "safe", "better", "much better", "peaceful", "braver", "lighter")},

    /* Sizes, looks, colours. */
    {"little", STORY_LIST(
        "little", "little", "small", "young", "tiny", "sweet little", "lively little",
        "bright little")},
    {"big", STORY_LIST("big", "large", "huge", "giant", "great big", "enormous", "mighty", "wide")},
    {"tiny", STORY_LIST("tiny", "small", "little", "teeny", "very small", "wee")},
    {"color", STORY_LIST(
        "red", "blue", "green", "yellow", "orange", "purple", "pink", "white", "brown", "golden",
        "silver", "gray", "sky-blue", "cherry-red", "lime-green", "turquoise", "violet",
        "cream-colored")},
    {"two_colors", STORY_LIST(
        "red and white", "blue and yellow", "green and gold", "pink and purple", "black and white",
        "orange and blue", "red and green", "silver and blue", "yellow and brown")},
    {"pretty", STORY_LIST(
        "pretty", "lovely", "beautiful", "splendid", "wonderful", "fine", "charming", "handsome",
        "neat", "marvelous")},
    {"cozy", STORY_LIST("cozy", "warm", "snug", "soft", "comfortable", "warm and soft")},
    {"old", STORY_LIST("old", "very old", "ancient", "crooked old", "dusty old", "gray old")},
    {"strange", STORY_LIST("strange", "odd", "funny", "curious", "peculiar", "mysterious",
        "weird")},

    /* Small words. */
    {"very", STORY_LIST("very", "so", "really", "quite", "truly", "ever so")},
    {"suddenly", STORY_LIST(
        "suddenly", "all of a sudden", "just then", "at that moment", "then", "all at once",
        "in that very moment", "out of nowhere")},
    {"soon", STORY_LIST(
        "soon", "before long", "after a while", "a little later", "in no time", "by and by",
        "a few minutes later", "after some time")},
    {"at_last", STORY_LIST(
        "at last", "finally", "in the end", "after a long time", "at long last")},
    {"gently", STORY_LIST(
        "gently", "softly", "carefully", "very gently", "slowly", "tenderly", "with great care")},
    {"number", STORY_LIST("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")},
    {"bignumber", STORY_LIST(
        "ten", "eleven", "twelve", "fifteen", "twenty", "thirty", "fifty", "a hundred")},
    {"all_day", STORY_LIST(
        "all day", "all day long", "the whole day", "from morning to night", "for hours",
        "all afternoon", "until the sun went down", "until it was time for supper")},

    /* Ways to move: past tense, in front of "to" or "toward". */
    {"walked", STORY_LIST(
        "walked", "went", "skipped", "strolled", "marched", "wandered", "hurried", "set off",
        "trotted", "tramped", "made {his} way", "headed",
        "<animal>{hero_kind.moved}", "<animal>{hero_kind.moved}")},
    {"ran", STORY_LIST(
        "ran", "raced", "dashed", "rushed", "hurried", "sped", "darted", "flew", "bolted",
        "<animal>{hero_kind.moved} as fast as {he} could")},
    {"jumped", STORY_LIST(
        "jumped up and down", "danced around", "clapped and cheered", "hopped from foot to foot",
        "spun around", "did a little dance", "jumped for joy", "skipped in a circle",
        "twirled around")},
    {"looked", STORY_LIST("looked", "peeked", "peered", "gazed", "stared", "glanced")},
    {"thought", STORY_LIST(
        "thought hard", "thought and thought", "sat down to think", "scratched {his} head",
        "closed {his} eyes and thought", "thought about it for a while", "rubbed {his} chin")},
    {"played", STORY_LIST(
        "played", "ran around", "laughed and played", "played tag", "played hide and seek",
        "made up games", "sang silly songs", "<!winter>rolled in the grass", "chased each other",
        "told each other jokes", "played pirates", "pretended to be dragons",
        "<winter>threw snowballs", "<autumn>jumped into piles of leaves",
        "<summer>splashed each other with water", "<spring>made chains of flowers")},

    /* Ways to speak: stand between a quote and the speaker. */
    {"cheered", STORY_LIST(
        "cried", "laughed", "cheered", "shouted", "called", "sang", "exclaimed",
        "squealed", "beamed")},
    {"sobbed", STORY_LIST(
        "sobbed", "sniffed", "said sadly", "wailed", "sighed", "whispered", "cried",
        "said in a small voice",
        "moaned", "whimpered")},
    {"whispered", STORY_LIST(
        "whispered", "said softly", "murmured", "said in a low voice", "said under {his} breath")},
    {"grumbled", STORY_LIST(
        "grumbled", "snapped", "shouted", "huffed", "growled", "muttered")},

    /* Whole little doings of a happy, sad or kind moment: past tense, behind a name. */
    {"smiled", STORY_LIST(
        "smiled", "grinned", "laughed", "giggled", "beamed", "nodded", "smiled a big smile",
        "chuckled", "laughed out loud", "smiled from ear to ear")},
    {"cried", STORY_LIST(
        "began to cry", "cried", "sobbed", "burst into tears", "wiped away a tear",
        "could not hold back the tears", "sniffed and sniffed", "felt a lump in {his} throat",
        "hung {his} head")},
    {"hugged", STORY_LIST(
        "hugged", "gave a big hug to", "put both arms around", "squeezed",
        "threw {his} arms around")},
    {"wow", STORY_LIST(
        "wow", "oh my", "hooray", "goodness", "oh", "look", "yippee", "oh wow", "my goodness",
        "would you look at that")},
    {"oh_no", STORY_LIST(
        "oh no", "oh dear", "no, no, no", "oh my", "dear me", "oh bother", "uh-oh")},
    {"thanks", STORY_LIST(
        "thank you", "thank you so much", "thanks a lot", "oh, thank you", "thank you, thank you",
        "thanks a million", "how can I ever thank you", "many thanks")},
    {0}};

const StoryContent stories_words = {.rules = rules};
