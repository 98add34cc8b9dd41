#include "data/stories_words.h"

/* clang-format off */

/* A toy breaks and is mended, and is dearer than before. */

static const StoryTable tables[] = {
    /* crash: how it breaks. harm: what is wrong. alone: what the hero tries. tool: what it takes.
     * mend: how it is done. mark: what one sees afterwards. */
    {"damage", "crash harm alone tool mend mark",
     STORY_LIST(
        "wheels", "The {object} hit a [stone|root|bump] with a loud crack",
        "One wheel had come off and lay in the dust",
        "{he} pushed the wheel back on, but it fell off again",
        "a tiny screw and a screwdriver",
        "{mender} turned the screw, round and round, until the wheel sat tight",
        "the wheel ran more smoothly than ever before",
        "wheels", "The {object} went faster and faster and crashed into [a wall|a tree|a fence]",
        "The front was bent, and the wheels would not turn",
        "{he} pulled and pushed, but nothing moved",
        "a little hammer and some oil",
        "tap, tap, tap went the hammer, and the oil did the rest",
        "only a small dent was left, and it looked like a smile",
        "soft",
        "{hero} and {friend1} both pulled at the {object}, and there was a terrible ripping sound",
        "The seam was open, and the stuffing came out",
        "{he} tried to push the stuffing back in, but it only got worse",
        "a needle and some {color} thread",
        "{mender} sewed with tiny stitches, one after the other",
        "where the hole had been, there was now a patch in the shape of a heart",
        "soft", "The {object} got caught on a [nail|thorn|branch] and tore",
        "One arm was hanging by a thread",
        "{he} tied it up with grass, but the grass broke",
        "a needle and strong thread",
        "{mender} sewed the arm back on and bit off the thread",
        "now the {object} had a bandage, just like a brave patient",
        "cloth", "The {object} got caught on a [nail|thorn bush|fence] and ripped",
        "There was a long tear right down the middle",
        "{he} held the edges together, but that did not help for long",
        "a needle, some thread and a bit of cloth",
        "{mender} put a patch over the tear and sewed all around it",
        "the patch had {bignumber} tiny [stars|dots|flowers] on it",
        "paper",
        "{suddenly}, {hero} [tripped|slipped|stumbled] and fell right on top of the {object}",
        "The {object} was torn from one end to the other",
        "{he} [licked the paper|used mud for glue], but that only made a mess",
        "some paper and a pot of glue",
        "{mender} glued a strip of paper over the tear and pressed it flat",
        "the strip was {color} and looked like a rainbow stripe",
        "paper", "{hero} forgot the {object} outside, and in the night it rained",
        "The {object} was wet and wrinkled and sad to look at",
        "{he} shook it, but it only dripped",
        "a soft towel and a heavy book",
        "{mender} dried it by the stove and laid it under the heavy book for a whole night",
        "it had a few waves now, like the sea",
        "wood",
        "The {object} fell [off a wall|off a bench|down a slope|out of {his} hands], bump, bump, "
        "bump",
        "A piece had broken off",
        "{he} held the piece in place, but it would not stay",
        "a pot of glue and a lot of patience",
        "{mender} put glue on both sides and tied a string around it, and then they waited until "
        "morning",
        "you could hardly see the crack",
        "wood", "{friend1} did not see the {object} on the ground and stepped on it",
        "The {object} had snapped in two",
        "{he} put a leaf around it, but it fell apart again",
        "a small nail and a hammer",
        "tap, tap, tap went the hammer, and the two parts were one again",
        "the little nail shone like a silver star",
        "strings", "{hero} pulled a bit too hard, and there was a loud snap",
        "The string had broken",
        "{he} made a knot, but the knot was too big",
        "a long new string",
        "{mender} threaded the new string through and tied it with a neat little knot",
        "the new string was {color}, and it was even stronger than the old one",
        "works", "{hero} dropped the {object}, and something inside went click",
        "The {object} did not work any more",
        "{he} shook it and knocked on it, but nothing happened",
        "a tiny screwdriver and a steady hand",
        "{mender} opened it, took out [a grain of sand|a crumb|a bit of fluff], and closed it "
        "again",
        "it hummed as if to say thank you",
        "works water", "{splash}! The {object} fell into the water",
        "The {object} was full of water and did not work any more",
        "{he} shook it, and a little fish of water jumped out, but that was all",
        "a dry cloth and a tiny screwdriver",
        "{mender} took it apart, dried every piece, and put it together again",
        "it worked as well as on the first day",
        "music !wood", "{hero} played so loudly that something went pop",
        "No sound came out any more",
        "{he} tried again and again, but there was only a sad little squeak",
        "a cloth, some glue and good ears",
        "{mender} cleaned it, mended the crack, and listened, and cleaned it again",
        "it sounded sweeter than before",
        "shiny !works !music !wear",
        "The {object} slipped out of {hero}'s fingers and fell on the stones",
        "There was a big scratch, and it did not shine any more",
        "{he} rubbed it with {his} sleeve, but the scratch stayed",
        "a soft cloth and a little bit of wax",
        "{mender} rubbed and rubbed in small circles until it began to shine",
        "if you held it to the light, you could see a tiny rainbow in the scratch")},
    {0}};

static const StoryRule rules[] = {
    {"splash", STORY_LIST("splash", "plop", "splish")},
    {"broken.start", STORY_LIST(
        "{one_day}, {hero} took the {object} {place.to}. {he} {object.did} [again and again|for a "
        "while|and showed it to {friend1}].",
        "{one_day}, {hero} and {friend1} were playing {place.at}. {hero} had brought the {object}.",
        "{one_day}, {hero} could not wait to go out with {his} {object}. {he} {ran} {place.to}.",
        "{weather_line} {hero} went {place.to} to [play|show the {object} to {friend1}|meet "
        "{friend1}]. [{aside}|]",
        "{one_day}, {hero} was so eager to play that {he} {ran} {place.to} with the {object} and "
        "forgot {his} [shoes|hat|lunch].")},
    {"broken.careful", STORY_LIST(
        "\"Be careful with it,\" {elder} had said.", "\"Not so wild!\" called {friend1}.",
        "{hero} was having so much fun that {he} forgot to be careful.", "", "")},
    {"broken.oh", STORY_LIST(
        "\"{oh_no}!\" cried {hero}.", "{hero} stood still and stared.",
        "For a moment, nobody said a word.",
        "{feel_sad}", "\"No!\" {hero} shouted. But it was too late.")},
    {"broken.feel", STORY_LIST(
        "{feel_sad}", "{hero} was {sad}, for there was nothing {he} loved more.",
        "Tears ran down {his} cheeks.", "\"It is broken for ever,\" {he} {sobbed}.",
        "{he} hid {his} face in {his} hands.", "{he} did not want to play any more.")},
    {"broken.go", STORY_LIST(
        "So {hero} took the {object} to {mender}.", "<!by_helper>{hero} ran home to {mender}.",
        "<by_helper>{hero} {ran} to {helper1}.",
        "{friend1} said, \"Let us ask {mender_call}!\"",
        "There was only one who could help: {mender}.",
        "{hero} carried the poor {object} home and showed it to {mender}.")},
    {"broken.look", STORY_LIST(
        "\"Let me see,\" said {mender}. \"All we need is {damage.tool}.\"",
        "{mender} [put on {mender_his} glasses|turned it over and over|looked at it for a long "
        "time]. \"Hm. We need {damage.tool},\" {mender_he} said.",
        "\"Do not worry,\" said {mender}. \"With {damage.tool}, we can fix this.\"",
        "{mender} opened a drawer and took out {damage.tool}. \"You can help me,\" {mender_he} "
        "said.",
        "\"Hm, hm, hm,\" said {mender}. \"[Nothing|Not much] that {damage.tool} cannot mend.\"",
        "{mender} [listened to the whole story|nodded and asked no questions|looked at {him} over "
        "{mender_his} glasses]. Then {mender_he} fetched {damage.tool}.",
        "\"Come, sit down here,\" {mender} said and [cleared the table|lit the lamp|put the kettle "
        "on]. On the table lay {damage.tool}.",
        "\"I have seen worse,\" said {mender}. \"Hand me {damage.tool}, please.\"")},
    {"broken.wait", STORY_LIST(
        "{hero} held [{his} breath|the lamp|the pieces|everything still].",
        "{hero} watched with big eyes.", "It was not easy, and it took a long time.",
        "{hero} helped as well as {he} could.", "")},
    {"broken.done", STORY_LIST(
        "\"[There|Done|Ready]!\" said {mender}. {Damage.mark}.",
        "And then it was done. {damage.mark}.", "{at_last}, it was ready, and {damage.mark}.",
        "{hero} [turned it around|held it up|looked at it from all sides]. {damage.mark}.",
        "\"Good as new,\" said {mender}. And really, {damage.mark}.",
        "When {hero} opened {his} eyes again, it was whole. {damage.mark}.")},
    {"broken.end", STORY_LIST(
        "\"It is even better than before!\" {cheered} {hero}. {he} {object.did} at once.",
        "\"{thanks}!\" said {hero}, and {he} {hugged} {mender}. {moral}",
        "\"{thanks}!\" said {hero}. \"{you_are_welcome},\" said {mender}. {moral}",
        "{hero} loved the {object} even more now. {moral}",
        "From that day on, {hero} was very careful with {his} {object}. {moral}",
        "{hero} {object.did} and was {happy}. {moral}",
        "The next day, {hero} went back {place.to} and {object.did} again. This time {he} was "
        "careful.")},
    {"broken.lesson", STORY_LIST(
        "broken things can be mended", "patience mends almost everything",
        "it is no shame to ask for help", "a thing you have mended is worth even more",
        "it is good to be careful with what you love", "two pairs of hands are better than one",
        "crying mends nothing, but glue and patience do")},
    {"mender", STORY_LIST("<by_helper>{helper}", "<!by_helper>{elder}")},
    {"mender_call", STORY_LIST("<by_helper>{helper}", "<!by_helper>your {elder_noun}")},
    {"elder_noun", STORY_LIST("{elder.call}")},
    {"mender_he", STORY_LIST("<by_helper>{helper_sex.he}", "<!by_helper>{elder.he}")},
    {"mender_his", STORY_LIST("<by_helper>{helper_sex.his}", "<!by_helper>{elder.his}")},
    {"who_mends", STORY_LIST("<+by_helper>x", "x")},
    {0}};

static const StoryPlot plots[] = {
    {"broken", STORY_CAST STORY_FAIR_DAY
     "object:object<!plain !home> look=object_look damage:damage lesson=broken.lesson "
        "who=who_mends",
     "{intro} {treasure}\n\n{broken.start} {broken.careful} {damage.crash}. {broken.oh} "
        "{damage.harm}.\n\n{broken.feel} {damage.alone}. {broken.go}\n\n{broken.look} "
        "{broken.wait} {damage.mend}. {broken.done}\n\n{broken.end} [{goodnight}|]"},
    {0}};

const StoryContent stories_plots_broken = {.rules = rules, .tables = tables, .plots = plots};
