#include "data/stories_words.h"

/* clang-format off */

/* Something dear gets lost and is found again; and something found goes back to its owner. */

static const StoryTable tables[] = {
    /* how: it goes away, seen by us and not by the hero. clue: said by whoever helps. where: the
     * place of it. got: how it comes back. care: what changes afterwards. */
    {"loss", "how clue where got care lesson",
     STORY_LIST(
        "small",
        "{hero} put the {object} into {his} pocket. But the pocket had a [tiny|little|small] hole "
        "in it",
        "[is there a hole in your pocket?|turn your pocket inside out.]",
        "[in the dust of the path|beside the gate|in the grass near the path]",
        "{hero} [picked it up|grabbed it|pounced on it] and held it [tight|high]",
        "[that evening|as soon as they were home|before supper], {elder} sewed up the hole",
        "small holes can make big trouble",
        "carry !winter",
        "{hero} put the {object} down on {stand} to [pick some flowers|look at a beetle|tie {his} "
        "shoe|watch a butterfly]. Then {he} walked on without it",
        "[where did you stop on the way?|what was the last thing you did?]",
        "on {stand}, right where {he} had left it",
        "{hero} ran up and picked it up {gently}",
        "from then on, {hero} always looked back before {he} left a place",
        "it helps to walk back the way you came",
        "shiny outdoor",
        "{hero} laid the {object} down for a moment. A magpie saw it shine and carried it off",
        "[look up there! something is shining in that nest.|magpies love shiny things, you know.]",
        "in the magpie's nest, high up in a tree",
        "{hero} held up [a shiny spoon|a bit of silver paper|a bright bottle cap], and the magpie "
        "was happy to trade",
        "after that, {hero} kept shiny things in a closed bag",
        "others like shiny things as well",
        "light outdoor",
        "A [strong|sudden|cheeky] gust of wind came along and [snatched the {object} away|blew the "
        "{object} away]",
        "[the wind blows toward the trees, so look up.|something is stuck in that tree over "
        "there.]",
        "on a high branch of [an old elm|a tall tree|a pine]",
        "{friend} shook the branch with a long stick until the {object} came down",
        "from then on, {hero} held on tight in the wind",
        "you should look up as well as down",
        "soft outdoor",
        "{hero} left the {object} on the grass for a moment. [A stray puppy|A playful puppy|A "
        "fluffy white dog] picked it up and trotted off",
        "[there are paw prints over here.|I saw a puppy with something in its mouth.]",
        "under a bush, between the paws of a sleeping puppy",
        "{hero} [swapped it for a stick|threw a stick, and the puppy ran after it]",
        "since then, {hero} and the puppy have often played together",
        "a thief is sometimes only somebody who wants to play",
        "rolls outdoor",
        "The {object} rolled and rolled, [down the slope|around the corner|under a hedge], until "
        "nobody could see it any more",
        "[things that roll always roll down, so look at the bottom.|how far can it have rolled?]",
        "in a ditch, covered with leaves",
        "{hero} [fished it out with a stick|climbed down and got it]",
        "from then on, {hero} played on flat ground",
        "things that roll need a careful eye",
        "floats water outdoor",
        "The water carried the {object} away while {hero} was looking [at a frog|at the clouds|the "
        "other way]",
        "[the water flows that way, so follow it.|I saw something small sail around the bend.]",
        "caught between the reeds",
        "{friend} held {his} hand while {hero} reached out and pulled it in",
        "after that, {hero} tied a long string to it",
        "two can reach farther than one",
        "carry autumn outdoor",
        "The {object} slipped out of {hero}'s bag and fell into a heap of leaves",
        "[leaves hide everything, so let us look under them.|what is that bump under the leaves?]",
        "under the biggest heap of leaves",
        "they [raked|kicked|blew] the leaves away until they saw it",
        "then they jumped into the leaves [ten|twenty|a hundred] times",
        "looking for something can be fun",
        "carry winter outdoor",
        "The {object} slipped out of {hero}'s bag and sank into the soft snow",
        "[go back along your footprints.|look for a hole in the snow.]",
        "in a small hole in the snow",
        "{hero} dug it out with cold fingers",
        "at home, the {object} got the warmest place by the fire",
        "footprints can show you the way",
        "wear",
        "{hero} pushed the {object} up because it was so warm. Then {he} forgot all about it",
        "[have you looked in the mirror?|what is that you are wearing?]",
        "on {hero}'s own back",
        "{hero} turned as red as a tomato and laughed",
        "for a whole week, everyone smiled about it",
        "the thing you look for may be very close")},
    {0}};

static const StoryRule rules[] = {
    {"treasure", STORY_LIST(
        "{hero} had a {look} {object}. {treasure_why}",
        "{his} dearest treasure was a {look} {object}. {treasure_why}",
        "for {his} birthday, {hero} had got a {look} {object}. {treasure_love}",
        "{elder} had given {him} a {look} {object}. {treasure_love}",
        "of all the things {he} had, {hero} liked {his} {look} {object} best. {treasure_why}",
        "there was one thing {he} loved above all: {his} {look} {object}. {treasure_why}")},
    {"treasure_why", STORY_LIST(
        "{elder} had given it to {him}.", "it had once belonged to {elder}.",
        "{he} had found it [on a walk|in a dusty box|at the bottom of a drawer] long ago.",
        "{he} had saved up for it for {number} [weeks|months].",
        "{elder} had made it with [two hands and a lot of love|great care].", "{treasure_love}")},
    {"treasure_love", STORY_LIST(
        "{he} never went anywhere without it.", "{he} even [took it to bed|slept with it].",
        "every day, {he} [cleaned it|counted {his} blessings and looked at it|showed it to "
        "everyone].",
        "nobody else was allowed to touch it.", "it made {him} feel [brave|lucky|special|big].",
        "{he} loved to {object.do}.", "every morning, {he} {object.did}.")},

    {"lost.lesson", STORY_LIST("{loss.lesson}")},
    {"lost.stand", STORY_LIST(
        "a tree stump", "a flat stone", "a low wall", "a wooden post", "the grass", "a big root")},
    {"lost.trip", STORY_LIST(
        "{one_day}, {hero} took the {object} {place.to}.",
        "{one_day}, {hero} {walked} {place.to} with {friend1}. Of course, the {object} came along.",
        "{one_day}, {hero} and {friend1} {walked2} {place.to}. \"Let me show you my {look} "
        "{object},\" said {hero}.",
        "{one_day}, {hero} wanted to play with the {object} {place.at}. {weather_line}",
        "{weather_line} {hero} packed {food.some} and the {object} and {walked} {place.to}.")},
    {"walked2", STORY_LIST(
        "went", "walked", "hurried", "skipped", "strolled", "set off", "wandered", "raced")},
    {"lost.play", STORY_LIST(
        "At first, everything was [fine|fun|wonderful]. {hero} {object.did} and {played}.",
        "{hero} {object.did} [for a long time|until it was time to eat|and was {happy}].",
        "{aside}", "{hero} {object.did} [again and again|for a long time]. {aside}",
        "{hero} {object.did} and forgot the time. {aside}")},
    {"lost.notice", STORY_LIST(
        "{soon}, {he} wanted the {object} back. But it was gone!",
        "When {he} wanted to play with the {object} again, it was not there.",
        "On the way home, {hero} stopped. \"{oh_no}! Where is my {object}?\"",
        "When it was time to go, {hero} [looked around|felt in {his} bag|looked everywhere]. The "
        "{look} {object} was gone.",
        "It was a while before {hero} noticed. \"My {object}!\" {he} cried. \"It is gone!\"")},
    {"lost.feel", STORY_LIST(
        "{feel_sad}", "{feel_sad}", "{his} [heart|tummy] felt as heavy as a stone.",
        "{hero} was {sad}, and {he} did not know what to do.",
        "Big tears [rolled down {his} cheeks|ran down {his} nose].",
        "{hero} sat down and {cried}.", "\"I will never see it again,\" {hero} {sobbed}.")},
    {"lost.search", STORY_LIST(
        "{he} looked {place.spot}. {nothing} {he} looked {place.spot}. {nothing}",
        "{hero} searched {place.spot} and {place.spot}, but {he} found only {lost.junk}.",
        "First {he} looked {place.spot}. Then {he} looked {place.spot}. {nothing}",
        "{hero} looked {place.spot}, {place.spot} and even {place.spot}. {nothing}",
        "{hero} crawled around and looked {place.spot}. There {he} found {lost.junk}, but no "
        "{object}.",
        "Was it {place.spot}? No. Was it {place.spot}? No, it was not there either.")},
    {"nothing", STORY_LIST(
        "Nothing!", "It was not there.", "No luck.", "No {object} there.", "Nothing at all.",
        "Only {lost.junk}.")},
    {"lost.junk", STORY_LIST(
        "an old shoe", "a rusty nail", "two feathers", "a bent spoon", "a snail", "some dry leaves",
        "a lonely sock", "a broken cup", "a bottle cap", "a very surprised toad", "an empty shell",
        "a pine cone", "half a cookie", "a piece of string", "a worm", "an old newspaper")},
    {"lost.help", STORY_LIST(
        "{friend1} saw {him} and asked, \"What is wrong?\" {hero} told {friend.him} everything. "
        "{friend} said, \"{loss.clue}\"",
        "Then {helper1} came by and said, \"{loss.clue}\"",
        "{elder} came and [listened|took {his} hand|dried {his} tears]. {elder.he} said, "
        "\"{loss.clue}\"",
        "\"Do not cry,\" said {friend1}. \"We will find it together. {loss.clue}\"",
        "{helper1} was sitting nearby. {helper_sex.he} {thought2} and said, \"{loss.clue}\"")},
    {"thought2", STORY_LIST("thought for a moment", "smiled", "looked around", "nodded slowly")},
    {"lost.found", STORY_LIST(
        "{hero}'s eyes grew wide. {quick_look} \"{wow}!\" And there it was: {loss.where}! "
        "{loss.got}.",
        "{quick_look} {at_last}, {hero} saw something {look}. It was the {object}, {loss.where}! "
        "{loss.got}.",
        "{quick_look} \"There it is!\" {cheered} {hero}. The {object} was {loss.where}. "
        "{loss.got}.",
        "That was it! {quick_look} The {look} {object} was {loss.where}. {loss.got}.",
        "{quick_look} Something {look} was there. Could it be? Yes! It was the {object}, "
        "{loss.where}. {loss.got}.",
        "{quick_look} {hero} could not believe {his} eyes. The {object} was {loss.where}. "
        "{loss.got}.",
        "\"Of course!\" {cheered} {hero}. {quick_look} And really, the {object} was {loss.where}. "
        "{loss.got}.")},
    {"quick_look", STORY_LIST(
        "{hero} {ran} back.", "They {ran2} back together.", "{hero} went to have a look.",
        "{hero} looked once more.", "They looked again, very carefully.", "Off they went.")},
    {"ran2", STORY_LIST("ran", "raced", "hurried", "rushed", "dashed")},
    {"lost.end", STORY_LIST(
        "{feel_happy} {loss.care}.",
        "\"{thanks}!\" said {hero}. And then {he} [took the {object} and|sat down and|gave a happy "
        "sigh and] {object.did} one more time. {loss.care}.",
        "{feel_happy} {moral}",
        "Now {hero} had {his} {object} again, and {he} was {happy}. {moral}",
        "{loss.care}. {moral}", "{hero} held the {object} close and was {happy}. {loss.care}.")},
    {0}};

static const StoryPlot plots[] = {
    {"lost", STORY_CAST STORY_FAIR_DAY
     "object:object<carry> look=object_look stand=lost.stand loss:loss lesson=lost.lesson "
        "food:food",
     "{intro} {treasure}\n\n{lost.trip} {lost.play} {loss.how}.\n\n{lost.notice} {lost.feel} "
        "{lost.search}\n\n{lost.help} {lost.found}\n\n{lost.end} {goodnight}"},
    {0}};

const StoryContent stories_plots_lost = {.rules = rules, .tables = tables, .plots = plots};
