#include "data/stories_words.h"

/* clang-format off */

/* A strange sound, wrong guesses, and a harmless answer. */

static const StoryTable tables[] = {
    /* sound: the noise itself. from: where it comes from. guess: what they fear. truth: what it is.
     * then: what they do about it. */
    {"noise", "sound from guess truth then",
     STORY_LIST(
        "", "tap, tap, tap", "the window", "a ghost with long fingers",
        "a branch that the wind moved to and fro",
        "{elder} cut the branch, and {hero} kept it as a walking stick",
        "", "scratch, scratch", "behind the wall", "a dragon sharpening its claws",
        "a family of mice, moving in with all their furniture",
        "{hero} put out some cheese to welcome them",
        "", "drip, drop, drip", "the bathroom", "somebody who never stops crying",
        "the old tap, which was not quite closed",
        "{hero} turned it tight, and the house was still",
        "", "hoo, hoo", "the roof", "a wolf with a cold", "an owl who had just learned to sing",
        "they opened the window and clapped for the owl",
        "+any_m", "rumble, rumble, grrr", "the next room", "a hungry bear",
        "{his} own grandpa, who was snoring in his chair",
        "they put a blanket over him and tiptoed out",
        "", "squeak, squeak", "the attic", "a pirate walking up and down",
        "the weather vane, which needed a drop of oil",
        "they gave it some oil, and after that it turned without a word",
        "", "clank, clank, clank", "the kitchen", "a knight in rusty armor",
        "a kitten with its head in a milk can",
        "they pulled it out and gave it a bowl of milk",
        "", "boom, ba-boom", "the cellar", "a giant beating a drum",
        "the apples, rolling down from the shelf one by one",
        "they picked them all up and baked a pie",
        "", "flip, flap, flip, flap", "the yard", "a huge bat",
        "a shirt on the line, waving its arms in the wind",
        "{hero} shook hands with the shirt and took it down",
        "", "whoo-ooh", "the chimney", "a ghost who had lost the way",
        "the wind, blowing over the chimney like over a bottle",
        "{hero} took a bottle and blew on it too, and it became a concert",
        "", "crunch, crunch, munch", "the garden", "a monster eating the house",
        "a hedgehog at its supper",
        "they watched it eat and did not make a sound",
        "", "tick, tick, tickety-tick", "under the floor", "a clock that was about to burst",
        "a beetle, knocking on the wood to find a friend",
        "{hero} knocked back, and the beetle answered all evening",
        "", "splish, splash, splosh", "the pond", "a sea monster",
        "{number} frogs, having a jumping contest",
        "{hero} gave points to every frog",
        "", "hummm, hummm", "the closet", "a machine from the moon",
        "a bumblebee that had crept into a shoe",
        "they carried the shoe outside, and the bee flew off",
        "!winter", "rattle, rattle, thump", "the shed", "a robber",
        "a raccoon that had got stuck in the watering can",
        "they freed it, and it ran away without saying thanks",
        "winter", "whump", "in front of the door", "an ice giant",
        "the snow, sliding down from the roof in one big heap",
        "they built a snowman out of it")},
    {0}};

static const StoryRule rules[] = {
    {"sound.night", STORY_LIST(
        "One {time}, {hero} was [lying in bed|almost asleep|reading under the blanket]. {friend1} "
        "was staying over.",
        "It was a {weather.adjective} {season} {time}. {hero} and {friend1} were alone in the "
        "room.",
        "One {time}, {friend1} came to sleep at {hero}'s house. They had just turned off the "
        "light.",
        "It was late. {night_line} {hero} and {friend1} were whispering in the dark.",
        "The lamp had just gone out. {hero} and {friend1} lay side by side and looked at the "
        "ceiling. {night_line}",
        "One {time}, the grown-ups were out, and {hero} and {friend1} were on their own. "
        "{night_line}",
        "It had been a long day. {hero} and {friend1} were brushing their teeth. {night_line}",
        "{night_line} {hero} and {friend1} had built a tent out of blankets in the middle of the "
        "room.")},
    {"sound.hear", STORY_LIST(
        "{suddenly}, they heard a {strange} sound: {noise}. It came from {noise.from}.",
        "Then it began. {noise}! It came from {noise.from}.",
        "\"Did you hear that?\" whispered {friend}. {noise}! There it was again, from "
        "{noise.from}.",
        "{noise}, went something. \"What was that?\" whispered {hero}. It came from {noise.from}.",
        "And there it was: {noise}. They held their breath. It came from {noise.from}.",
        "\"Shh!\" said {hero}. \"Listen!\" {Noise}. It came from {noise.from}.",
        "First it was very soft. Then it got louder: {noise}. Something was there, and it came "
        "from {noise.from}.",
        "{friend} sat up straight. {noise}! The sound came from {noise.from}.")},
    {"sound.guess", STORY_LIST(
        "\"That is {noise.guess},\" {friend} whispered and pulled the blanket over {friend.his} "
        "head.",
        "\"Maybe it is {noise.guess},\" said {hero}. {his} voice was shaking.",
        "\"I think it is {noise.guess}!\" said {friend}. \"Or {sound.other}!\" said {hero}.",
        "{hero} thought of {noise.guess}. {friend} thought of {sound.other}.",
        "\"What if it is {noise.guess}?\" asked {hero}. They held on to each other.")},
    {"sound.other", STORY_LIST(
        "a lion", "a troll with big feet", "a very large spider", "a hungry wolf",
        "something with {number} heads", "a lost elephant",
        "a grumpy witch", "a robot", "a goblin")},
    {"sound.brave", STORY_LIST(
        "{noise}! \"We have to look,\" said {hero} {at_last}.",
        "It did not stop. \"I am going to look,\" {hero} said.",
        "They waited. {noise}! Then {hero} took the flashlight.",
        "\"If we do not look, we will never know,\" said {hero}.",
        "{hero} took a [broom|pillow|wooden spoon] in one hand and a lamp in the other.")},
    {"sound.go", STORY_LIST(
        "Step by step, they {crept2} toward the sound. The floor creaked.",
        "They {crept2} along, hand in hand. It was very dark.",
        "{friend} hid behind {hero}, and together they {crept2} closer.",
        "Their hearts beat so loudly that they could hear them.",
        "The light of the lamp danced on the walls. Closer and closer they {crept2}.")},
    {"crept2", STORY_LIST("crept", "tiptoed", "sneaked", "went", "moved")},
    {"sound.truth", STORY_LIST(
        "{hero} counted to three and held up the light. It was {noise.truth}!",
        "And what did they see? It was only {noise.truth}!",
        "There was no monster at all. It was {noise.truth}.",
        "They looked. They looked again. Then they began to laugh: it was {noise.truth}!",
        "\"Ha!\" cried {hero}. It was nothing but {noise.truth}.")},
    {"sound.laugh", STORY_LIST(
        "{they_two} laughed until they cried.",
        "\"And we were so scared!\" said {friend}, giggling.",
        "They laughed so loudly that {elder} woke up.",
        "\"I was not scared at all,\" said {friend}, and they both giggled.", "")},
    {"sound.end", STORY_LIST(
        "Then {noise.then}. {moral}", "So {noise.then}. After that, they slept like two logs.",
        "In the end, {noise.then}. {moral}",
        "And because they were awake anyway, {noise.then}. {goodnight}",
        "Then {noise.then}. And whenever they heard {noise} again, they smiled.")},
    {"sound.lesson", STORY_LIST(
        "most monsters are quite small when you turn on the light",
        "it is better to look than to guess",
        "fear has big eyes", "a strange sound often has a simple reason",
        "being brave is easier for two")},
    {0}};

static const StoryPlot plots[] = {
    {"sound", STORY_CAST
        "time:time<dark> weather:weather noise:noise lesson=sound.lesson food:food",
     "{intro}\n\n{sound.night} {sound.hear} {sound.guess}\n\n{sound.brave} "
        "{sound.go}\n\n{sound.truth} {sound.laugh} {sound.end}"},
    {0}};

const StoryContent stories_plots_sound = {.rules = rules, .tables = tables, .plots = plots};
