#include "data/stories_words.h"

/* clang-format off */

/* The weather turns, and there is shelter and company. */

static const StoryTable tables[] = {
    /* sign: how it begins. shelter: where they hide, behind a verb of going. worry: what is bad.
     * pass: how they pass the time. after: what they find when it is over. */
    {"tempest", "sign shelter worry pass after",
     STORY_LIST(
        "!winter", "A dark cloud rolled over the hills, and the first drops fell",
        "under [a big oak|the old bridge|a wide roof]", "The rain came down like a curtain",
        "they told each other riddles",
        "There were puddles everywhere, and each of them had a piece of sky in it",
        "!winter", "The wind began to pull at the trees, and thunder rumbled far away",
        "into [an empty barn|an old hut|a dry cave]",
        "Lightning flashed, and {hero} jumped every time",
        "they sang louder than the thunder",
        "A rainbow stood over the [hills|fields|water], from one end to the other",
        "!winter", "The sky turned [yellow|purple|dark green], and it became very still",
        "into [a little shed|a hollow tree|the mill]", "Hail as big as peas drummed on the roof",
        "they counted the drops that came through the roof",
        "White hail lay on the grass like sugar, and it melted in their hands",
        "winter", "The wind howled, and snow began to whirl around them",
        "into [a woodcutter's hut|a warm stable|a cave]",
        "Soon they could not see the path any more",
        "they made shadow animals on the wall",
        "The whole world was white and still, and nobody had made a footprint yet",
        "autumn", "A storm came up and chased the leaves through the air",
        "behind [a thick wall|a haystack|a row of barrels]",
        "A branch cracked and fell right beside them",
        "they held on to each other and made up a song about the wind",
        "The wind had shaken down the sweetest [nuts|apples|pears] of the year",
        "spring", "All at once, the brook began to rise",
        "up [a small hill|the steps of the mill|on a big rock]",
        "The water rushed by and carried away a whole fence",
        "they watched the things that floated past and guessed where they came from",
        "The water went back and left behind a little wooden [boat|chest|horse]",
        "", "A thick fog crept over the fields and swallowed everything",
        "close together beside [a stone wall|an old gate|a well]",
        "They could not even see their own feet",
        "they rang a little bell and listened for an answer",
        "The sun broke through, and home was only {bignumber} steps away")},
    {0}};

static const StoryRule rules[] = {
    {"storm.far", STORY_LIST("the last house", "the old mill", "the edge of the map",
        "a place where they had never been", "the crooked signpost")},
    {"storm.start", STORY_LIST(
        "{one_day}, {hero} and {friend} {walked2} {place.to}. [{aside}|]",
        "{one_day}, {hero} wanted to [have a picnic|fly a kite|look for treasure|play pirates] "
        "{place.at} with {friend}.",
        "{hero} and {friend} had planned it all week: a picnic {place.at}. They packed {food.some} "
        "and set off.",
        "{one_day}, {hero} and {friend} were far from home, {place.at}. {place.sight}.",
        "{one_day}, {hero} and {friend} went out to gather [mushrooms|berries|pine "
        "cones|stones|firewood]. They got as far as {storm.far}.",
        "\"It is such a fine day,\" said {hero}. \"Let us walk until we see something new.\" "
        "{friend} agreed.",
        "{one_day}, {hero} showed {friend} a secret place. It was a long walk. [{aside}|]")},
    {"storm.warn", STORY_LIST(
        "\"Come home before it rains,\" {elder} had said. But they forgot the time.",
        "{friend} pointed at the sky. \"Look,\" {friend.he} said.",
        "They did not look up at the sky for a long time.",
        "\"I think the weather is changing,\" said {friend}.", "")},
    {"storm.run", STORY_LIST(
        "\"Quick!\" cried {hero}. They {ran2} {tempest.shelter}.",
        "\"We must hide!\" called {friend}. Hand in hand they {ran2} {tempest.shelter}.",
        "{hero} grabbed {friend}'s hand, and they {ran2} {tempest.shelter}.",
        "They packed up everything and {ran2} {tempest.shelter}.",
        "\"Run!\" cried {friend}. They left everything behind and {ran2} {tempest.shelter}.",
        "{friend} lost a shoe, and {hero} carried it. They {ran2} {tempest.shelter}.",
        "There was only one thing to do. Heads down, they {ran2} {tempest.shelter}.")},
    {"storm.fear", STORY_LIST(
        "{friend} began to shake. \"I am [scared|afraid|cold],\" {friend.he} {whispered2}.",
        "{hero} was {scared}, but {he} did not want to show it.",
        "\"What if it never stops?\" {friend} {whispered2}.",
        "\"I want to go home,\" said {friend} in a small voice.",
        "\"Do you think that they are looking for us?\" asked {friend}.",
        "{hero} could feel that {friend}'s hand was shaking.",
        "{friend} did not say anything, and that was worse than crying.",
        "\"It sounds like [a hundred lions|a train|the end of the world|giants at war],\" {friend} "
        "{whispered2}.")},
    {"whispered2", STORY_LIST("whispered", "said softly", "murmured", "said in a low voice")},
    {"storm.comfort", STORY_LIST(
        "\"We are together,\" said {hero}. \"Nothing can happen to us.\" To make the time go by, "
        "{tempest.pass}.",
        "{hero} put {his} [coat|scarf|blanket] around {friend}. {friend} felt {calm} at once. Then "
        "{tempest.pass}, and it was almost [cozy|fun|nice].",
        "\"I know what we can do,\" said {hero}. So {tempest.pass}.",
        "They moved close together. {snack} Then {tempest.pass}.",
        "{hero} was afraid too. But {he} made a funny face, and {friend} had to smile. After that, "
        "{tempest.pass}.",
        "\"Let us pretend that we are [pirates|explorers|bears in winter|in a ship],\" said "
        "{hero}. And {tempest.pass}.",
        "\"Storms get tired too,\" said {hero}. While they waited, {tempest.pass}.")},
    {"storm.guest", STORY_LIST(
        "{suddenly}, something moved in the corner. It was a {tiny} [mouse|bird|kitten|hedgehog], "
        "and it was {wet_cold}. They let it sit between them.",
        "A [wet|shivering|lost] [cat|hare|puppy|lamb] came in and lay down at their feet.",
        "a {old} [owl|toad|dog] was already there and looked at them with big eyes. \"There is "
        "room for all of us,\" said {hero}.",
        "", "", "")},
    {"wet_cold", STORY_LIST("wet and cold", "all wet", "shaking with cold", "dripping wet")},
    {"storm.over", STORY_LIST(
        "{at_last}, it became quiet outside. {hero} put out {his} nose. {tempest.after}.",
        "And then it was over, just like that. {tempest.after}.",
        "{soon}, the clouds moved on. They stepped outside. {tempest.after}.",
        "After an hour or so, {friend} said, \"Listen!\" There was nothing to hear any more. "
        "{tempest.after}.",
        "Then {hero} noticed that {he} could hear {his} own breath again. It was over. "
        "{tempest.after}.",
        "A single bird began to sing. They crept out. {tempest.after}.",
        "Bit by bit, it got lighter. {tempest.after}. \"Oh!\" said {friend}.")},
    {"storm.home", STORY_LIST(
        "On the way home, they [jumped over every puddle|sang the whole way|were not afraid any "
        "more].",
        "{elder} came running along the path and {hugged2} them both. \"There you are!\" "
        "{elder.he} cried.",
        "At home, {elder} wrapped them in blankets and gave them {food.some}.",
        "\"We were not even afraid,\" {hero} told {elder}. \"Well, only a little.\"",
        "Half-way home, they met {elder} with a lantern and two dry coats.",
        "They were wet to the skin, but they laughed all the way home.",
        "\"Can we do that again?\" asked {friend}. {hero} looked at {friend.him}, and they both "
        "giggled.",
        "At home, {elder} hung their socks over the stove and asked no questions.")},
    {"hugged2", STORY_LIST("hugged", "kissed", "squeezed", "put both arms around")},
    {"storm.lesson", STORY_LIST(
        "a storm is only half as bad when you are not alone",
        "after every storm, the sun comes back",
        "it is wise to look at the sky", "a good friend is the best shelter",
        "a song helps against the thunder", "there is always room for one more")},
    {0}};

static const StoryPlot plots[] = {
    {"storm", STORY_CAST STORY_FAIR_DAY "tempest:tempest lesson=storm.lesson food:food",
     "{intro} {meet_friend}\n\n{storm.start} {small_talk} {storm.warn} {tempest.sign}. "
        "{storm.run}\n\n{tempest.worry}. {storm.fear} {storm.comfort} "
        "{storm.guest}\n\n{storm.over} {storm.home} [{moral}|{moral}|{goodnight}]"},
    {0}};

const StoryContent stories_plots_storm = {.rules = rules, .tables = tables, .plots = plots};
