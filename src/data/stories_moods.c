#include "data/stories_words.h"

/* clang-format off */

/* Details that make one telling differ from the next: looks, pets, sights, moods, good nights. */
static const StoryRule rules[] = {
    {"intro_detail", STORY_LIST(
        "<child>{he} had [curly|straight|short|long|messy|shiny] [brown|black|red|blond|dark] hair "
        "and [a great many freckles|a gap between {his} teeth|two dimples|a tiny nose|{eye_color} "
        "eyes].",
        "<child>{he} [always|nearly always|often] wore [a {color} cap|a {color} sweater|a {color} "
        "scarf|socks of two different colors|a {color} raincoat|boots that were too big|shoes "
        "without laces].",
        "<child>{he} had a [cat|dog|rabbit|parrot|hamster|turtle|goldfish] [named|called] "
        "{pet_name}[, who was very {pet_is}|].",
        "<animal !looked>{he} had {hero_kind.look} and [{eye_color} eyes|a very good nose|a loud "
        "voice|a funny way of walking|a spot of white on {his} chest|one crooked whisker].",
        "<animal>Whenever {he} was happy, {he} {hero_kind.sound}.",
        "<animal>{he} [always|often|sometimes] wore [a {color} scarf|a {color} hat|a {color} vest "
        "with {number} buttons|a flower behind one ear|a {color} ribbon].",
        "<animal>{he} had {number} [brothers|sisters|cousins|brothers and sisters], and all of "
        "them were {siblings_are}.",
        "{his} favorite food was {food_like}, and {his} favorite color was {color}.",
        "{he} could [count to {bignumber}|whistle with two fingers|wiggle {his} ears|hop on one "
        "leg for a whole minute|sleep standing up|say the alphabet backwards|roll {his} tongue].",
        "In {his} pocket, {he} always had [a {color} button|a piece of string|a lucky bean|three "
        "marbles|a crumb of cake|a smooth stone].",
        "When {he} was {happy_short}, {he} [sang|hummed|hopped|clapped|spun around|whistled]. When "
        "{he} was {sad_short}, {he} [hid in the closet|said nothing at all|sat under the "
        "table|went for a walk|pulled up {his} blanket].",
        "{his} best day of the week was "
        "[Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday], because then there was always "
        "something with {sweet_thing}.",
        "{he} had just learned to [read|tie a bow|count to {bignumber}|swim|whistle|tell the "
        "time].",
        "Every {evening_thing}, {he} {evening_habit}.",
        "{he} was afraid of nothing, [except cold soup|except Mondays|except the color {color}|not "
        "even of geese]. At least, that was what {he} said.",
        "On {his} [window sill|shelf|bed] stood {number} [pots with flowers|painted stones|wooden "
        "horses|jars full of buttons|shells].",
        "{he} had once [seen a whale|met a king|won a prize for whistling|found a coin in a "
        "fish|slept in a tree], and {he} told everyone about it.",
        "Under {his} bed, {he} kept a box with {a_treasure} and {a_treasure} in it.",
        "{he} was [not very tall|small for {his} age|as thin as a pencil|strong for {his} size], "
        "but {he} [ate like a bear|had a big heart|ran like the wind|had a loud laugh|knew a lot "
        "of words].",
        "{his} [hands|pockets|shoes] were always full of [sand|crumbs|paint|leaves|surprises].")},
    {"evening_thing", STORY_LIST("morning", "evening", "night", "Sunday", "afternoon")},
    {"evening_habit", STORY_LIST(
        "sang a song for the [moon|sun|cat|neighbors]", "[watered|counted|greeted] the flowers",
        "practiced [handstands|the flute|big words|winking]",
        "wrote [a letter|a poem|three words] in a {color} book", "fed the [birds|fish|snails]",
        "helped {elder} with the [dishes|bread|fire|hens]")},
    {"a_treasure", STORY_LIST(
        "a blue feather", "an old coin", "a dried frog", "a silver bell", "a map without a name",
        "three teeth", "a rusty key", "a glass eye", "a letter from far away",
        "a broken watch", "a piece of a star", "a golden button", "a green bottle",
        "an empty snail shell")},
    {"eye_color", STORY_LIST("green", "brown", "gray", "blue", "dark", "bright", "big round",
        "sleepy")},
    {"pet_name", STORY_LIST(
        "Socks", "Mittens", "Pudding", "Captain", "Noodle", "Pickle", "Cookie", "Shadow", "Bubble",
        "Crumb", "Muffin",
        "Tiger", "Snowball", "Pumpkin", "Whisker", "Peanut")},
    {"pet_is", STORY_LIST("lazy", "fat", "clever", "old", "noisy", "shy", "fluffy", "greedy",
        "fast", "wild")},
    {"siblings_are", STORY_LIST("louder than {he} was", "bigger than {he} was", "good at singing",
        "always hungry", "very noisy", "as {trait} as {he} was")},
    {"food_like", STORY_LIST(
        "soup", "porridge", "apple pie", "pancakes", "noodles", "carrot cake", "berries",
        "bread and honey", "pudding",
        "potato salad", "plum jam", "cheese", "nuts", "pears", "dumplings", "waffles")},
    {"sweet_thing", STORY_LIST("jam", "honey", "cheese", "raisins", "butter", "cherries", "cream",
        "nuts")},
    {"happy_short", STORY_LIST("happy", "glad", "cheerful", "in a good mood")},
    {"sad_short", STORY_LIST("sad", "unhappy", "cross", "in a bad mood", "tired")},

    /* Moods, as whole sentences. */
    {"feel_sad", STORY_LIST(
        "{hero} felt {sad}.", "{hero} was {sad}.", "{hero} {cried}.",
        "{his} [heart|tummy] felt as heavy as [a stone|lead|a sack of potatoes].",
        "Big tears [rolled down {his} cheeks|ran down {his} nose|dripped on {his} "
        "[shoes|sleeve|shirt]].",
        "{hero} felt like [a balloon without air|a flower without water|a bird without a song|a "
        "house with nobody in it|rain].",
        "{his} lip [began to shake|trembled]. {his} eyes [filled with tears|got wet|stung].",
        "{he} [swallowed hard|looked at {his} feet|sighed a deep sigh|hung {his} head|pulled {his} "
        "hat down over {his} eyes].",
        "All the [color|sunshine|music] seemed to go out of the {time}.",
        "{hero} wanted to [crawl under a blanket|go home|hide in a hole|be somewhere else] and not "
        "come out again.")},
    {"feel_happy", STORY_LIST(
        "{hero} felt {happy}.", "{hero} was {happy}.", "{hero} {jumped}.", "{hero} {smiled}.",
        "{hero} felt like [a kite in the wind|a king|the luckiest {kind} in the world|a bell on a "
        "holiday|a bird in spring|dancing].",
        "{his} heart [jumped|sang|hopped|did a somersault|felt as light as a feather].",
        "{his} face [shone|glowed|lit up] like [a lamp|the sun|a lantern|the moon].",
        "{hero} [laughed out loud|clapped {his} hands|threw {his} hat into the air|turned three "
        "somersaults|whistled with joy].",
        "There was nobody {world.land} who was as happy as {hero}.")},
    {"dear", STORY_LIST("my dear", "little one", "sweetheart", "my love", "dear child",
        "my treasure", "honey", "my little {kind}")},

    /* By the way: small things seen, heard or done that change nothing. */
    {"aside", STORY_LIST("{place.sight}.", "{aside_way}", "{aside_way}", "{aside_way}")},
    {"aside_way", STORY_LIST(
        "On the way, {hero} [hummed a little song|counted {his} steps|whistled a tune|kicked a "
        "pebble|made up a rhyme|skipped over every crack|talked to {himself}|looked at the "
        "clouds|balanced on a wall].",
        "On the way, {he} [met|saw|passed|greeted] [a woman with {number} dogs|a man with a "
        "ladder|two old ladies with baskets|a boy on stilts|a cat with a bell|a very slow snail|a "
        "farmer with a cart|a clown with a suitcase].",
        "<outdoor !winter>a {color} butterfly [fluttered by|flew along for a while|sat down on "
        "{hero}'s nose|rested on a flower].",
        "<outdoor>a {aside_size} bird [sang in a tree|hopped across the path|looked down at "
        "{him}|chirped hello|was looking for worms].",
        "<outdoor>a {aside_size} [squirrel|rabbit|cat|lizard|beetle|mouse] [crossed the "
        "path|looked up for a moment|hurried by|sat on a wall|was having its breakfast].",
        "<outdoor !winter>A snail was crossing the path, and {hero} waited until it was on the "
        "other side.",
        "<outdoor winter>{his} footprints made a long line in the snow.",
        "<outdoor winter>An icicle fell from a branch with a tinkle.",
        "<outdoor winter>{his} breath made little clouds in the air.",
        "<outdoor winter>The snow [creaked|crunched|squeaked] under {his} feet.",
        "<outdoor autumn>a {leaf_color} leaf landed on {hero}'s [head|nose|shoulder].",
        "<outdoor autumn>Acorns [crunched|rolled about] under {his} feet.",
        "<outdoor autumn>It smelled of [smoke|mushrooms|wet leaves|apples].",
        "<outdoor autumn>The geese flew over in a long line, on their way south.",
        "<outdoor spring>A mother duck led {number} ducklings along in a line.",
        "<outdoor spring>The first [crocus|violet|daisy|primrose] was in bloom.",
        "<outdoor spring>Every [hedge|tree|bush] was full of [birds|new leaves|buds|chirping].",
        "<outdoor summer>A bee [hummed past|was busy in a flower|bumbled by].",
        "<outdoor summer>The air was so warm that it [shimmered|hummed|made everyone sleepy].",
        "<outdoor summer>The [crickets|grasshoppers] were singing in the grass.",
        "Everything smelled [fresh|of {season}|wonderful|a little like honey|of bread].",
        "Somewhere, [a dog barked|a bell rang|a rooster crowed|somebody was singing|a door "
        "slammed|a baby laughed|a train whistled].",
        "A cloud in the shape of [a sheep|a dragon|a boat|a shoe|an elephant|a cake] [sailed "
        "by|hung in the sky|drifted over the hill].")},
    /* For two who are together. */
    {"small_talk", STORY_LIST(
        "\"I am hungry,\" said {friend}. \"You are always hungry,\" said {hero}.",
        "\"What is your favorite [color|animal|food|day]?\" asked {friend}. \"I have {number} of "
        "them,\" said {hero}.",
        "\"Race you to the [tree|corner|gate|fence|big stone]!\" called {friend}, and off they "
        "went.",
        "{friend} told a joke about [a cow|two frogs|a potato|an elephant|a king without socks|a "
        "very small giant], and {hero} laughed so hard that {he} [got the hiccups|had to sit "
        "down|fell over].",
        "\"Do you think that [fish sleep|clouds are soft|snails have dreams|stones can hear|worms "
        "have birthdays]?\" asked {friend}. [\"Of course,\" said {hero}.|{hero} did not know.|They "
        "talked about it for a while.]",
        "They [counted|talked about] [all the birds they saw|the clouds|their favorite things].",
        "They [sang|whistled] [a song with {bignumber} verses|{number} old songs].",
        "{friend} had brought {food_like}, enough for both of them.",
        "{hero} taught {friend} a new [word|song|dance|trick], and {friend.he} [learned it at "
        "once|got it all wrong|laughed].",
        "\"When I am big, I will be [a pirate|a baker|a doctor|a juggler|the captain of a ship|a "
        "painter],\" said {friend}. \"And I will be your helper,\" said {hero}.",
        "", "", "")},
    {"elder_busy", STORY_LIST(
        "{elder} was [baking bread|reading the paper|mending a sock|watering the flowers|hanging "
        "up the laundry|peeling potatoes|humming in the kitchen|fixing a chair|writing a "
        "letter|feeding the hens|looking for {elder.his} glasses].", "", "")},
    {"aside_size", STORY_LIST("fat", "little", "cheeky", "brown", "shy", "tiny", "round",
        "sleepy", "gray", "bold", "hungry")},
    {"leaf_color", STORY_LIST("red", "golden", "brown", "yellow", "orange", "spotted")},

    /* The last words of a story. */
    {"goodnight", STORY_LIST(
        "That night, {hero} fell asleep with a smile on {his} face.",
        "That night, {hero} dreamed [sweet|happy|wonderful|funny|colorful] dreams[ of {dream}|].",
        "When the moon came up, {hero} was already fast asleep[ and dreamed of {dream}|].",
        "That evening, {hero} told {elder} the whole story [twice|three times|from beginning to "
        "end|and left nothing out].",
        "In bed that night, {hero} thought about it all and {smiled}.",
        "{elder} tucked {him} in and [kissed {him} good night|said, \"Sleep well, {dear}.\"|left "
        "the door open a little].",
        "{hero} was {tired} that evening and [went straight to bed|fell asleep over {his} "
        "supper|yawned all the way up the stairs].",
        "Then {hero} crept into {his} {cozy} bed and [closed {his} eyes|pulled up the blanket|was "
        "asleep at once].",
        "It had been a [long|good|wonderful|perfect|very special|busy] day.",
        "What a day it had been!", "It was the best day of the whole {season}.",
        "And that was the end of a {weather.adjective} and [wonderful|happy|busy|exciting] {time}.",
        "And they all lived happily ever after.", "The end.",
        "And if you ask {hero} about it today, {he} still [laughs|smiles|tells the story].",
        "{hero} wrote it all down in {his} diary, and drew [a picture|a {color} star] next to it.",
        "For supper they had {food_like}, and {hero} asked for more.",
        "The stars came out, one by one, and {hero} [counted them|waved to them|said good night to "
        "each of them].",
        "\"Good night, {dear},\" said {elder}. But {hero} was already dreaming of {dream}.", "", "",
        "", "", "")},
    {"dream", STORY_LIST(
        "a flying boat", "a mountain of cake", "a dancing bear", "the sea",
        "a castle in the clouds", "a garden full of lights", "a friendly whale",
        "a snowman who could sing", "a forest of candy", "stars that giggled",
        "a very polite dragon", "a parade of frogs")},
    {0}};

const StoryContent stories_moods = {.rules = rules};
