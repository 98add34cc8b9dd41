#include "data/stories_words.h"

/* clang-format off */

/* Something is built, falls down, and is built better; and something is learned by trying again. */

static const StoryTable tables[] = {
    {"work", "what from first fall why better use",
     STORY_LIST(
        "sand", "a sandcastle", "wet sand, shells and a feather for a flag",
        "They piled up four towers and a wall", "a big wave rolled over it",
        "it stood too close to the water", "a deep moat that led the water around it",
        "moved in a family of crabs as kings and queens",
        "winter", "a snowman", "three big balls of snow and a carrot",
        "They rolled the snow until the balls were as high as their noses",
        "the head rolled off and down the hill",
        "the top was too heavy", "a flat place on every ball, so that nothing could roll",
        "put a hat on it and danced around it",
        "", "a tree house", "old boards and a box of nails", "They pulled the boards up on a rope",
        "the floor tipped, and everything slid off",
        "one side was not held up by anything", "a strong post on each side",
        "pulled up the ladder and ate {food.some} among the leaves",
        "", "a fort", "blankets, chairs and pillows", "They hung the blankets over the chairs",
        "the roof came down on their heads",
        "the middle had nothing to rest on", "a broom in the middle, like the pole of a tent",
        "lay inside and told ghost stories",
        "!winter", "a raft", "logs and a long rope", "They tied log to log with the rope",
        "it came apart in the middle of the pond, and they had to wade home",
        "the knots were too loose", "double knots that {helper} had shown them",
        "sailed to the other bank and back",
        "", "a tower of blocks", "every block they could find",
        "They put one block on top of the other, higher and higher",
        "it swayed and crashed to the floor",
        "it was too thin at the bottom", "a broad foot, as wide as a table",
        "put the teddy on top, who could see everything",
        "!winter", "a dam across the brook", "stones, sticks and mud",
        "They piled up stones from one bank to the other", "the water pushed it all away",
        "there were holes between the stones", "moss and mud in every hole",
        "watched the little lake grow and set paper boats on it",
        "", "a bird house", "a wooden box and some nails",
        "They hammered the walls and put a roof on top",
        "the rain came in, and it fell off the branch",
        "the roof was too flat", "a steep roof and a strong hook",
        "watched a pair of robins move in",
        "", "a soap-box car", "an old crate and four wheels",
        "They nailed the wheels to the crate and painted it {color}",
        "a wheel came off at the first corner",
        "the nails were too short", "real screws and a brake",
        "rolled down the hill with the wind in their hair",
        "", "a bridge over the ditch", "two planks and a heap of stones",
        "They laid the planks from one side to the other",
        "it slipped into the ditch with a splash",
        "the ends lay on soft mud", "flat stones under both ends",
        "carried the whole picnic over to the other side",
        "", "a kite as big as a door", "paper, sticks and a ball of string",
        "They glued the paper to the sticks",
        "it flew up, turned around, and dived into the ground",
        "it had no tail", "a long tail of {bignumber} {color} bows",
        "let it climb until it was a tiny dot in the sky",
        "autumn", "a scarecrow", "straw, an old coat and a pumpkin",
        "They stuffed the coat and put the pumpkin on top", "the crows came and sat on its arms",
        "it stood too still", "tin cans that rattled in the wind",
        "bowed to the scarecrow, and the crows stayed away")},

    {"skill", "do did fail trick done proof",
     STORY_LIST(
        "", "whistle", "whistled", "only air came out", "make your lips as small as a cherry",
        "a clear, high sound came out", "whistled so well that the birds answered",
        "child", "ride a bike", "rode a bike", "{he} wobbled and fell into the hedge",
        "look at the end of the street and not at the wheel",
        "{he} rolled on and on, all alone", "rode to the bakery to fetch the bread",
        "", "tie a bow", "tied a bow", "the knot fell open",
        "make two ears like a rabbit, and put one through the hole", "there was a neat little bow",
        "tied the shoes of all the little ones",
        "summer", "swim", "swam", "{he} swallowed half of the pond",
        "kick like a frog and breathe out slowly", "{he} floated and moved forward",
        "swam to the island to pick a water lily",
        "", "juggle", "juggled", "the balls rolled under the sofa",
        "throw them high and watch the sky", "all three balls danced in the air",
        "juggled with apples at the market",
        "", "skip rope", "skipped rope", "the rope got caught around {his} ankles",
        "listen to the rope and jump when it sings", "{he} jumped once, twice, {bignumber} times",
        "skipped all the way to school",
        "winter", "skate", "skated", "{he} sat down hard on the ice",
        "bend your knees and push like a duck", "{he} glided like a swan",
        "drew a big eight on the ice",
        "", "do a headstand", "did a headstand", "{he} fell over like a tree",
        "make a triangle with your head and your hands", "the whole world was upside down",
        "ate a cookie upside down",
        "", "play the drum", "played the drum",
        "it sounded like a cupboard falling down the stairs",
        "count one, two, three, four, and tap your foot", "everybody began to clap along",
        "played at the {season} parade",
        "", "draw a horse", "drew a horse", "it looked like a table with ears",
        "look at the round parts first, and leave the legs for last",
        "the horse looked as if it could run off the paper",
        "drew a horse for everyone in the family",
        "", "make a paper boat", "made a paper boat", "it sank at once",
        "fold it slowly, and press each fold with your thumb", "the boat sailed across the puddle",
        "sent off a whole fleet of boats",
        "", "walk on stilts", "walked on stilts", "{he} took one step and lay on the grass",
        "do not stand still, keep on walking", "{he} strode along like a stork",
        "picked the highest cherry on the tree",
        "", "read", "read", "the letters danced before {his} eyes",
        "take one letter by the hand, and then the next",
        "the letters became a word, and the word was home",
        "read a whole book to {elder}")},
    {0}};

static const StoryRule rules[] = {
    {"build.start", STORY_LIST(
        "{one_day}, {hero} had a plan. \"Let us build {work}!\" {he} said to {friend}.",
        "\"I want to build {work},\" {friend} said one {time}. \"The best one ever!\" said {hero}.",
        "{weather_line} {hero} and {friend} were looking for something to do. \"What about "
        "{work}?\" asked {hero}.",
        "{hero} wanted to build something {big}: {work}. {friend} wanted to help.",
        "{hero} had always dreamed of {work}. {one_day}, {he} and {friend} began.")},
    {"build.stuff", STORY_LIST(
        "They gathered {work.from}. {work.first}.",
        "All they needed was {work.from}. {work.first}.",
        "{hero} brought {work.from}. {work.first}.",
        "In the shed, they found {work.from}. {work.first}.",
        "\"We need a lot of things,\" said {friend}. They carried everything to one place: "
        "{work.from}. {work.first}.",
        "{helper} gave them {work.from}. {work.first}.")},
    {"build.proud", STORY_LIST(
        "It looked [wonderful|splendid|grand].", "\"It is perfect!\" said {friend}.",
        "{hero} was {proud}.", "\"It will stand for a hundred years,\" said {hero}.",
        "They stepped back to look at it. {friend} whistled.",
        "{hero} drew a flag with {number} stars for it.",
        "\"Nobody has ever had such a fine one,\" said {friend}.",
        "They danced around it [three times|until they were dizzy|hand in hand].")},
    {"build.fall", STORY_LIST("But then {work.fall}.", "{suddenly}, {work.fall}.",
        "They were just about to celebrate when {work.fall}.")},
    {"build.feel", STORY_LIST(
        "\"{oh_no}!\" they both cried.",
        "{friend} threw {friend.his} hat on the ground. \"I give up,\" {friend.he} said.",
        "{hero} felt {sad}. All that work!",
        "\"It is your fault,\" said {friend}. \"No, yours,\" said {hero}. Then they were both "
        "quiet.", "{feel_sad}")},
    {"build.think", STORY_LIST(
        "But {hero} looked at it closely. \"I know why,\" {he} said. \"{work.why}.\"",
        "{elder} came by and {looked2}. \"Why did it fall?\" {elder.he} asked. {hero} {thought}. "
        "\"Because {work.why}!\"",
        "{helper1} stopped to look. \"I think {work.why},\" {helper_sex.he} said.",
        "They sat down and thought. Then {friend} had it: \"I see, {work.why}!\"",
        "{hero} picked up the pieces, one by one, and {thought}. \"I think {work.why},\" {he} "
        "said.",
        "\"Wait,\" said {hero}. \"I have an idea what went wrong. Look, {work.why}.\"",
        "That evening, {hero} drew it all on a piece of paper. Then {he} saw it: {work.why}!",
        "\"Ask yourselves why,\" said {elder}. They did, and the answer was simple: {work.why}.")},
    {"looked2", STORY_LIST("took a good look", "walked around it twice",
        "scratched {elder.his} chin")},
    {"build.again", STORY_LIST(
        "So they started all over again. This time they gave it {work.better}.",
        "The second time, it took longer, because they gave it {work.better}.",
        "\"Once more,\" said {hero}. And now it got {work.better}.",
        "They rolled up their sleeves. Now they gave it {work.better}.",
        "{friend} was not sure, but {hero} was. They did it all again, and gave it {work.better}.",
        "The next day, they came back with new courage and gave it {work.better}.")},
    {"build.wait", STORY_LIST("They held their breath. It held!",
        "They waited. It stayed where it was!", "One, two, three. It stood firm!",
        "And this time, it worked!")},
    {"build.end", STORY_LIST(
        "{hero} and {friend} cheered. Then they {work.use}. {moral}",
        "They {work.use}, and they did not go home before supper. {moral}",
        "\"The second one is always the best,\" said {hero}. They {work.use}. {goodnight}",
        "{hero} had dreamed of {work}, and there it was. They {work.use}. {moral}",
        "First they were quiet, and then they cheered. They {work.use}. {moral}",
        "\"We did it!\" {cheered} {hero}. They {work.use}. Then {elder} called them home. "
        "{goodnight}",
        "{friend} shook {hero}'s hand like a grown-up. Then they {work.use}. {moral}")},
    {"build.lesson", STORY_LIST(
        "a mistake shows you how to do it better", "it is no shame to start again",
        "a good foot is worth more than a high top", "thinking comes before hammering",
        "two heads are better than one")},

    {"skill.want", STORY_LIST(
        "There was one thing {hero} wanted to do more than anything: {he} wanted to {skill}.",
        "All of {his} friends could {skill}. Only {hero} could not.",
        "{one_day}, {hero} saw how {friend1} {skill.did}. \"I want to {skill} too!\" {he} said.",
        "\"When I am big, I will {skill},\" {hero} always said. But {one_day}, {he} did not want "
        "to wait any longer.",
        "{hero} had a dream: to {skill}. {he} had seen it [at the fair|in a book|on the street], "
        "and since then {he} thought of nothing else.",
        "\"Can you {skill}?\" {friend1} asked one day. {hero} [blushed|shook {his} head|looked "
        "away]. But {he} wanted to learn it.",
        "On {his} list of wishes, there was only one thing: to {skill}.",
        "{elder} could {skill}, and {friend1} could too. {hero} decided that it was {his} turn.")},
    {"skill.try", STORY_LIST(
        "{he} tried it. But {skill.fail}.",
        "{hero} tried once, and {skill.fail}. {he} tried again, and {skill.fail} again.",
        "It looked so easy. But when {he} tried, {skill.fail}.",
        "On the first try, {skill.fail}. On the second try, it was even worse.",
        "\"How hard can it be?\" said {hero}. Very hard, as it turned out: {skill.fail}.",
        "{he} tried when nobody was looking. But {skill.fail}.",
        "{he} counted to three and tried. {skill.fail}. {he} counted to ten and tried again. It "
        "was no better.",
        "The first day was a [disaster|bad one|sad one]: {skill.fail}.")},
    {"skill.feel", STORY_LIST(
        "\"I will never learn it,\" {hero} {sobbed}.", "{friend1} giggled, and {hero} got {angry}.",
        "{hero} was {sad} and wanted to give up.", "\"This is stupid!\" {hero} {grumbled}.",
        "{hero} kicked a stone. \"Everyone can do it but me,\" {he} {sobbed}.")},
    {"skill.tip", STORY_LIST(
        "\"I needed {number} weeks to learn it,\" said {elder}. \"Try this: {skill.trick}.\"",
        "{helper1} had watched {him}. \"May I tell you a secret?\" {helper_sex.he} asked. "
        "\"{skill.trick}.\"",
        "{friend1} sat down next to {him}. \"Let me show you,\" {friend.he} said. "
        "\"{skill.trick}.\"",
        "\"Nobody can do it at once,\" said {elder}. \"Here is what I do: {skill.trick}.\"",
        "\"May I show you something?\" asked {helper1}. \"It is quite simple: {skill.trick}.\"",
        "That night, {elder} sat down on {his} bed. \"Do you know the trick?\" {elder.he} asked. "
        "\"{skill.trick}.\"",
        "\"You are trying too hard,\" said {friend1}. \"Just {skill.trick}.\"",
        "In an old book, {hero} found the answer: {skill.trick}.")},
    {"skill.practice", STORY_LIST(
        "{hero} practiced in the morning. {he} practiced in the evening.",
        "{hero} tried it ten times, twenty times, a hundred times.",
        "Day after day, {hero} practiced, until {his} {body} hurt.",
        "{hero} practiced when it rained, and {he} practiced when it did not.",
        "It did not work at once. But every day, it got a tiny bit better.")},
    {"body", STORY_LIST("fingers", "knees", "cheeks", "feet")},
    {"skill.works", STORY_LIST(
        "And then, one {time}, {skill.done}! \"I can {skill}!\" {cheered} {hero}.",
        "One day, nobody knew how, {skill.done}. {hero} could hardly believe it.",
        "{hero} closed {his} eyes and tried once more. {skill.done}! \"Did you see that?\" {he} "
        "cried.",
        "On the [third|fifth|seventh|tenth] day, it happened: {skill.done}. {hero} held {his} "
        "breath with joy.",
        "Nobody was there to see it, only [a cat|a sparrow|two hens|the moon], when {skill.done}. "
        "{feel_happy}",
        "\"One more time,\" {hero} told {himself}. And behold, {skill.done}!")},
    {"skill.end", STORY_LIST(
        "The next day, {he} {skill.proof}. {moral}",
        "{elder} clapped, and {friend1} clapped too. Soon, {hero} {skill.proof}. {moral}",
        "From then on, {hero} {skill.did} everywhere. {moral}",
        "A week later, {hero} {skill.proof}. And when a little one said, \"I will never learn "
        "it,\" {hero} just smiled.",
        "\"Who taught you that?\" everyone asked. {hero} only smiled, and {skill.proof}. {moral}",
        "To celebrate, {hero} {skill.proof}. {moral}",
        "{elder} was {proud}, and {hero} {skill.proof}. {goodnight}",
        "That Sunday, {hero} {skill.proof}, and everybody clapped. {moral}")},
    {"skill.lesson", STORY_LIST(
        "practice makes all the difference", "everything is hard before it is easy",
        "you only lose if you give up", "falling is a part of learning",
        "small steps take you far")},
    {0}};

static const StoryPlot plots[] = {
    {"building", STORY_CAST STORY_FAIR_DAY "work:work lesson=build.lesson food:food",
     "{intro} {meet_friend}\n\n{build.start} {small_talk} {build.stuff} {build.proud} "
        "{build.fall}\n\n{build.feel} {build.think}\n\n{build.again} {build.wait} {build.end}"},
    {"skill", STORY_CAST STORY_FAIR_DAY "skill:skill lesson=skill.lesson food:food",
     "{intro}\n\n{skill.want} {skill.try} {skill.feel}\n\n{skill.tip} {skill.practice} "
        "{skill.works}\n\n{skill.end} [{goodnight}|]"},
    {0}};

const StoryContent stories_plots_building = {.rules = rules, .tables = tables, .plots = plots};
