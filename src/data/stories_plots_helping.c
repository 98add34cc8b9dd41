#include "data/stories_words.h"

/* clang-format off */

/* Somebody is in trouble, the hero helps, and the kindness comes back. */

static const StoryTable tables[] = {
    /* see: who is in trouble, with a full sentence. who: how to name them later. try: what does not
     * work. fix: what does. later: the trouble of the hero, and who comes. */
    {"need", "see who fix thank back",
     STORY_LIST(
        "outdoor", "A turtle was lying on its back and waving its legs in the air", "the turtle",
        "put both hands under the shell and gently turned it over",
        "the turtle blinked slowly", "let {hero} stand on its back to look over the high wall",
        "outdoor !winter", "A bee had fallen into a puddle and could not get out", "the bee",
        "held out a leaf, and the bee climbed on it to dry its wings",
        "the bee flew around {his} head three times",
        "showed {hero} the way to a field full of flowers",
        "outdoor !winter +any_f",
        "A baby bird had fallen out of its nest and was crying for its mother", "the little bird",
        "lifted it up very gently, climbed the tree and put it back into the nest",
        "the mother bird sang her best song", "woke {hero} with a song every single morning",
        "outdoor", "A kitten was sitting high up in a tree and did not dare to come down",
        "the kitten",
        "leaned a long board against the tree and called softly until it came down",
        "the kitten purred and rubbed against {his} leg", "sat by {hero}'s bed when {he} was ill",
        "child +any_f", "An old woman was carrying two heavy bags, and one of them had just torn",
        "the old woman",
        "picked up all the potatoes and carried the torn bag to her door",
        "the old woman patted {his} cheek", "gave {hero} an umbrella when it poured with rain",
        "child +any_m", "An old man was looking for his glasses and could not find them",
        "the old man",
        "looked around and found them on top of the man's own head",
        "the old man laughed until his belly shook",
        "read {hero} the letter that nobody else could read",
        "!winter +any_f", "A duckling had lost its mother and ran this way and that way, peeping",
        "the duckling",
        "walked along the water, very slowly, until they heard a loud quack",
        "the mother duck bowed her head", "found the ring that {elder} had dropped into the water",
        "", "A mouse had its tail caught under a stone", "the mouse",
        "pushed the stone aside with all {his} strength",
        "\"One day, I will help you too,\" squeaked the mouse. {hero} laughed, for the mouse was "
        "so small",
        "gnawed through the rope when {hero} was caught in a net",
        "winter", "A hungry bird sat in the snow with its feathers puffed up", "the bird",
        "gave it the rest of {his} bread and hung up a little house full of seeds",
        "the bird ate every crumb", "led {hero} home when {he} lost {his} way in the snow",
        "autumn", "A squirrel had forgotten where it had hidden its nuts", "the squirrel",
        "drew a map and dug with it, here and there, until the nuts were found",
        "the squirrel jumped from branch to branch",
        "put a nut on {hero}'s window sill every morning",
        "!winter",
        "A snail was on its way to the other side, but the road was wide and full of wheels",
        "the snail",
        "put it on a leaf and carried it across",
        "the snail waved its horns", "left a silver trail that showed {hero} the way in the dark",
        "", "A hedgehog was stuck in an empty [can|bucket|flower pot]", "the hedgehog",
        "tipped it over and pulled, very carefully because of the prickles",
        "the hedgehog sneezed and bowed", "kept all the slugs away from {hero}'s lettuce",
        "child +any_m", "A small boy was standing there, crying, because he could not find his dad",
        "the small boy",
        "took his hand and went with him from bench to bench until they found the right dad",
        "the dad had tears in his eyes and bought them both an ice cream",
        "waved at {hero} whenever they met",
        "!winter", "A spider's web was torn, and the spider sat sadly in a corner", "the spider",
        "bent two twigs together so that there was a good place for a new web",
        "the spider worked all night",
        "made a net so strong that it caught {hero}'s ball before it fell into the river",
        "", "An old donkey was standing in front of a cart that was stuck in the mud", "the donkey",
        "put branches under the wheels and pushed from behind",
        "the donkey shook its long ears", "carried {hero} home when {he} hurt {his} foot",
        "+any_f", "A goose had a thorn in her foot and could not walk", "the goose",
        "pulled out the thorn with two careful fingers",
        "the goose hissed a little and then said sorry",
        "gave {hero} a soft feather for {his} hat")},
    {0}};

static const StoryRule rules[] = {
    {"help.busy", STORY_LIST(
        "{one_day}, {hero} was on the way {place.to}. {he} was in a hurry, because {friend1} was "
        "waiting there.",
        "{one_day}, {hero} {walked} {place.to} to [meet {friend1}|play|look for stones|buy some "
        "bread]. [{aside}|]",
        "{one_day}, {elder} sent {hero} out to fetch [milk|eggs|water|wood|a letter]. \"Be "
        "quick,\" said {elder}.",
        "{weather_line} {hero} {walked} {place.to}. [{aside}|]",
        "{one_day}, {hero} had a lot to do. {he} wanted to be {place.at} before the others.",
        "{one_day}, {hero} was late for the [feast|game|show|picnic] and took the short way "
        "{place.to}.",
        "{one_day}, {hero} was carrying {food.some} to {friend1}. {he} had to hurry, or it would "
        "get cold.",
        "{one_day}, {hero} was out with {friend1}. \"Come on, or we will miss [the parade|the "
        "boat|the best part|lunch],\" said {friend}.")},
    {"help.see", STORY_LIST(
        "{suddenly}, {he} heard a sound and stopped. {need.see}.",
        "Then {he} saw something. {need.see}.",
        "{need.see}.", "But what was that? {need.see}.",
        "There was a tiny noise {place.spot}. {hero} bent down. {need.see}.",
        "\"Help!\" Was that a voice? {hero} looked around. {need.see}.",
        "{hero} almost walked past it. {need.see}.",
        "And there, right in the middle of the way, was a sad sight. {need.see}.")},
    {"help.others", STORY_LIST(
        "Everybody else just walked by.",
        "{hero} looked around, but there was nobody else to help.",
        "\"Somebody else will help,\" thought {hero} at first. But nobody came.",
        "\"I have no time,\" thought {hero}. But then {he} looked again.",
        "{hero} felt sorry for {need.who}.", "\"Oh, you poor thing!\" said {hero}.", "")},
    {"help.do", STORY_LIST(
        "{hero} {thought}. Then {he} {need.fix}.",
        "\"Wait, I will help you,\" {hero} said. {He} {need.fix}.",
        "{hero} {need.fix}. It took a long time, but it worked.",
        "\"Do not be afraid,\" said {hero}. {He} {need.fix}.",
        "There was no time to lose. {hero} {need.fix}.",
        "\"What would {elder.call} do?\" {hero} asked {himself}. Then {he} {need.fix}.",
        "{hero} put down everything {he} was carrying. Then {he} {need.fix}.",
        "It was not easy, but {hero} {need.fix}.")},
    {"help.thanks", STORY_LIST("{need.thank}.", "{need.thank}. {hero} felt warm inside.",
        "{need.thank}, and {hero} felt {happy}.",
        "{need.thank}. That was thanks enough for {hero}.",
        "{need.thank}. \"Take care of yourself,\" said {hero}.",
        "{need.thank}, and for a moment the world was [perfect|bright|very good].")},
    {"help.late", STORY_LIST(
        "{hero} was late now, but {elder} was not cross when {elder.he} heard why.",
        "{hero} came late, but {he} did not mind.",
        "\"Where have you been?\" asked {elder}. {hero} told {elder.him} everything, and {elder} "
        "was {proud}.",
        "Then {he} went on {his} way and [whistled a tune|hummed|forgot all about it].",
        "The others had already [started|eaten|gone home], but that did not matter.",
        "\"You missed everything,\" said {friend1}. {hero} just smiled.",
        "And {he} ran the rest of the way, with a light heart.",
        "Nobody had seen it, and {hero} told nobody about it.")},
    {"help.back", STORY_LIST(
        "And what do you think? Some days later, {need.who} {need.back}.",
        "{hero} did not expect anything for it. But later, {need.who} {need.back}.",
        "Not long after that, {need.who} {need.back}.",
        "A week went by. Then, one {time}, {need.who} {need.back}.",
        "You will not believe it, but in the [next spring|next winter|very same week], {need.who} "
        "{need.back}.",
        "{hero} had nearly forgotten it when, one {time}, {need.who} {need.back}.",
        "And when {hero} needed it most, {need.who} {need.back}.",
        "{number} weeks later, something strange happened: {need.who} {need.back}.")},
    {"help.end", STORY_LIST(
        "\"You helped me, and I helped you,\" it seemed to say. {moral}", "{moral}",
        "{moral} {goodnight}",
        "\"Good deeds have long legs,\" said {elder}. \"They always come back.\"",
        "{feel_happy} {moral}")},
    {"help.lesson", STORY_LIST(
        "no one is too small to help", "a kind deed always comes back",
        "it is never a waste of time to help",
        "kindness costs nothing", "even a small help can be a big one",
        "you should help without asking for a reward")},
    {0}};

static const StoryPlot plots[] = {
    {"helping", STORY_CAST STORY_FAIR_DAY "need:need lesson=help.lesson food:food",
     "{intro} {elder_busy}\n\n{help.busy} {help.see} {help.others}\n\n{help.do} {help.thanks} "
        "{help.late}\n\n{help.back} {help.end}"},
    {0}};

const StoryContent stories_plots_helping = {.rules = rules, .tables = tables, .plots = plots};
