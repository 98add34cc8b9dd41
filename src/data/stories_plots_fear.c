#include "data/stories_words.h"

/* clang-format off */

/* A fear, a reason to face it, and one small step. */

static const StoryTable tables[] = {
    {"fear", "of why event advice step found brave",
     STORY_LIST(
        "", "the dark", "In the dark, every [chair|coat|bush] looked like a monster",
        "One evening, all the lights went out at once",
        "the dark is only the day with its eyes closed",
        "{he} took one step into the dark hall, then another",
        "The monster by the door was only [a coat on a hook|an old umbrella|a pile of laundry]",
        "went to bed without a light",
        "summer", "deep water", "When the water reached {his} tummy, {he} always ran back",
        "One hot day, all the others were swimming and laughing, and only {hero} sat on the bank",
        "the water will carry you if you let it",
        "{he} held {elder.his} hand and lay back, just for a second",
        "The water was cool and soft, and it really carried {him}",
        "swam all the way across",
        "", "thunder",
        "When it thundered, {he} hid under the table with {his} hands over {his} ears",
        "One night, there was a crash so loud that the windows rattled",
        "thunder is only the clouds bumping their heads",
        "{he} counted out loud between the flash and the crash: one, two, three",
        "With every flash, the number grew, so the storm was moving away",
        "sat at the window and watched the lightning",
        "child", "the big slide",
        "It was as high as a house, and {his} knees shook when {he} looked up",
        "One day, {friend1} called from the top, \"Come up, you can see the whole world from "
        "here!\"",
        "you only have to climb one step at a time",
        "{he} climbed the first step, then the second, and did not look down",
        "Whoosh! The wind blew through {his} hair, and in a moment {he} was at the bottom, "
        "laughing",
        "went down the slide {bignumber} times",
        "child", "dogs", "Dogs had such big teeth and such loud voices",
        "One day, a large brown dog sat right in front of the door and would not move",
        "let the dog smell your hand first, and keep still",
        "{he} stretched out one hand, very slowly",
        "The dog gave the hand a big wet lick and wagged its tail so hard that it fell over",
        "stopped to say hello to every dog",
        "+school", "the first day of school",
        "{he} did not know anybody there, and the building was so big",
        "Then the day came, and {hero} stood at the gate and did not want to let go of {elder}",
        "everybody in there is a little bit afraid today",
        "{he} let go of the hand and sat down next to a {fkind} who was crying",
        "\"I am {friend},\" said the {fkind}, and after that they were both less afraid",
        "was the first one at the gate",
        "", "singing in front of others",
        "Alone, {he} sang like a bird, but in front of others {his} voice hid",
        "One day, {helper} asked {him} to sing at the {season} party",
        "look at one friend and sing only for that one",
        "{he} looked for {friend1} in the crowd and began, very softly",
        "{friend} smiled, and the song grew louder and louder all by itself",
        "sang at every party",
        "", "the dentist", "{he} had heard about the big chair and the shiny tools",
        "One day, a tooth began to hurt, and {elder} said that it was time to go",
        "count to ten, and it will be over",
        "{he} opened {his} mouth and counted: one, two, three",
        "At seven, the dentist said, \"All done!\" and gave {him} [a sticker|a shiny mirror|a new "
        "toothbrush]",
        "told everyone that it was not so bad",
        "!winter", "bees", "When something hummed, {he} ran away and waved {his} arms",
        "One day, a bee sat down on the very flower that {hero} wanted to pick",
        "a bee is too busy to bother you if you stay calm",
        "{he} stood as still as a stone and watched",
        "The bee brushed the yellow dust off its legs, as neat as a cat, and flew away",
        "planted a row of flowers just for the bees",
        "", "spiders", "Spiders had so many legs, and you never knew where they would go",
        "One morning, a spider sat in the middle of the window",
        "a spider is more afraid of you than you are of it",
        "{he} went one step closer and looked",
        "The web was covered with drops of dew, and it sparkled like a necklace",
        "said good morning to the spider every day",
        "", "the swinging bridge", "It creaked and swayed, and far below the water rushed",
        "One day, {friend1} was on the other side and needed help with a heavy basket",
        "look at the other side and not at the water",
        "{he} put one foot on the bridge, then the other, and looked straight at {friend}",
        "The bridge swayed, but it held, and then {he} felt the grass under {his} feet",
        "ran across the bridge as if it were nothing",
        "", "sleeping away from home", "{he} had never slept without {elder} in the next room",
        "One day, {friend1} asked {him} to stay for the night",
        "take something small from home with you",
        "{he} put {his} old pillow into a bag and went",
        "The pillow smelled of home, and {friend} whispered funny stories until they both fell "
        "asleep",
        "could sleep anywhere",
        "", "the cellar", "It was cold down there, and something always went drip, drip, drip",
        "One day, {elder} needed a jar of [plums|jam|pears] from the cellar and had no time to go",
        "monsters do not like songs",
        "{he} sang as loudly as {he} could and went down, step by step",
        "There was no monster at all, only a leaky pipe and a very old frog who seemed to like the "
        "song",
        "went down to the cellar to sing to the frog",
        "", "climbing high", "Even on a chair, {he} felt dizzy",
        "One day, {friend1}'s {color} balloon got stuck in a tree, and {friend} began to cry",
        "hold on with three and move only one",
        "{he} took hold of the lowest branch, then the next, and looked only up",
        "Up there, {he} could see the roofs and the river and the far blue hills, and the balloon "
        "as well",
        "climbed a little higher every week",
        "", "loud noises", "A bang or a pop made {him} jump and cry",
        "One day, there was a parade with a drum as big as a table",
        "a noise is less scary if you make some yourself",
        "{he} took a [pot|pan] and a spoon and hit it once: bong",
        "It was fun, and soon {he} marched along, louder than the drum",
        "marched in every parade")},
    {0}};

static const StoryRule rules[] = {
    {"fear.intro", STORY_LIST(
        "But there was one thing {hero} was afraid of: {fear.of}. {fear.why}.",
        "{hero} was not afraid of much. But {he} was afraid of {fear.of}. {fear.why}.",
        "Only one thing made {him} {shiver}: {fear.of}. {fear.why}.",
        "{hero} had a secret. {he} was afraid of {fear.of}. {fear.why}.",
        "Nobody knew it, but {hero} was terribly afraid of {fear.of}. {fear.why}.")},
    {"shiver", STORY_LIST("shiver", "tremble", "shake", "want to hide", "run away", "feel cold")},
    {"fear.wish", STORY_LIST(
        "\"I wish I were brave,\" {he} often said.", "{he} wanted so much to be brave.",
        "Sometimes the others laughed about it, and that hurt.",
        "<!school>{friend1} was not afraid at all.",
        "\"Maybe I will be brave when I am bigger,\" {he} thought.", "", "")},
    {"fear.react", STORY_LIST(
        "{hero} felt {scared}. {his} heart [went boom, boom, boom|beat like a drum|jumped into "
        "{his} throat].",
        "{his} knees [shook|felt like jelly|went weak]. \"I cannot do it,\" {he} {whispered}.",
        "{hero} wanted to run away, but {his} feet would not move.",
        "\"I am too {scared2},\" {hero} {sobbed}.",
        "{hero} felt [cold|hot and cold|sick] with fear.")},
    {"scared2", STORY_LIST("scared", "afraid", "frightened", "small", "little")},
    {"fear.talk", STORY_LIST(
        "{elder} [put an arm around {him}|sat down beside {him}|took {his} hand]. \"Everybody is "
        "afraid of "
        "something,\" {elder.he} said. \"Remember, {fear.advice}.\"",
        "\"When I was little, I was afraid too,\" said {elder}. \"But {fear.advice}.\"",
        "\"I know what to do,\" said {elder}. \"Listen, {fear.advice}.\"",
        "Then {he} remembered what {elder} always said: {fear.advice}.",
        "\"Do you know what?\" said {elder} softly. \"I will tell you a secret: {fear.advice}.\"")},
    {"fear.try", STORY_LIST(
        "{hero} took a deep breath.", "{hero} closed {his} eyes for a moment and nodded.",
        "\"All right,\" {hero} said, \"I will try.\"",
        "{hero} thought about it for a long time. Then {he} stood up.",
        "\"One, two, three,\" {hero} counted.", "{hero} made {himself} as tall as {he} could.")},
    {"fear.glad", STORY_LIST(
        "\"That was not so bad!\" {cheered} {hero}.", "\"I did it! I did it!\" {cheered} {hero}.",
        "{hero} could hardly believe it. {he} felt {proud}.",
        "{hero} began to laugh, and all the fear was gone.",
        "It was over, and {hero} felt {proud}.", "\"Again!\" {cheered} {hero}.")},
    {"fear.end", STORY_LIST(
        "After that day, {hero} {fear.brave}. {moral}",
        "The next time, {hero} {fear.brave}. {moral}",
        "\"You were very brave,\" said {elder}. {moral_self}",
        "\"Being brave means to be afraid and to do it all the same,\" said {elder}. From then on, "
        "{hero} "
        "{fear.brave}.",
        "And do you know what? A week later, {hero} {fear.brave}.",
        "{hero} had always wished to be brave, and now {he} was. {moral}")},
    {"fear.lesson", STORY_LIST(
        "things look smaller when you come closer", "the first step is the hardest one",
        "even brave people are afraid sometimes", "a fear gets smaller when you share it",
        "you can be afraid and brave at the same time",
        "you never know before you try")},
    {0}};

static const StoryPlot plots[] = {
    {"fear",
        "world:world season:season hero:sex hero_kind:animal hero=hero_name trait:trait<!brave> "
     "hobby:hobby hobby2:hobby friend:sex friend_kind:animal friend=friend_name elder:elder "
     "helper_sex:sex helper:helper helper=helper_name time:time<day> weather:weather<fair> "
     "place:place<outdoor> fear:fear lesson=fear.lesson food:food",
     "{intro} {fear.intro} {fear.wish}\n\n{fear.event}. {fear.react}\n\n{fear.talk} {fear.try} "
     "{fear.step}. {fear.found}. {fear.glad}\n\n{fear.end} [{supper}|{goodnight}|]"},
    {0}};

const StoryContent stories_plots_fear = {.rules = rules, .tables = tables, .plots = plots};
