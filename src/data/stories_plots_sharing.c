#include "data/stories_words.h"

/* clang-format off */

/* Two want the same thing. */

static const StoryTable tables[] = {
    /* What they quarrel about, when it is not a thing of the hero's. pull: what the quarrel does.
     * idea: how both can have it. done: how that goes. */
    {"quarrel", "want pull idea done lesson",
     STORY_LIST(
        "two", "the {look} {object}",
        "they both pulled at the {object}, and {plop} they fell on their backs",
        "why do you not use it together, one on each side?",
        "with two, it was twice as much fun",
        "some games need two",
        "toy", "the {look} {object}",
        "they pulled so hard that the {object} flew through the air and landed in a "
        "[puddle|bush|pot of soup]",
        "one plays while the other counts to {bignumber}, and then you change.",
        "{hero} went first and counted slowly, and {friend} counted fast, and they both laughed",
        "taking turns makes a toy last longer",
        "", "the last [cupcake|muffin|cookie|honey bun] on the plate",
        "they both grabbed it, and it broke into a hundred crumbs",
        "one of you cuts it, and the other one chooses.",
        "{elder} brought another one, {hero} cut it exactly in half, and {friend} chose the left "
        "half",
        "a half that is shared tastes better than a whole",
        "", "the window seat on the bus",
        "they pushed each other until both of them sat on the floor",
        "one of you looks out on the way there, and the other one on the way back.",
        "{friend} told {hero} everything {friend.he} saw, and on the way back {hero} did the same",
        "there is room for two if both make room",
        "!winter", "the only swing",
        "they both sat down on it at the same time, and the rope broke",
        "we will tie a board between the two ropes, so that you can sit side by side.",
        "now there was a swing for two, and it went higher than before",
        "there is often a way that nobody has thought of",
        "", "the [red|blue|golden|green] crayon",
        "they pulled and pulled, and snap, the crayon broke in two",
        "now there are two crayons, one for each of you.",
        "{hero} drew the sun, and {friend} drew the sea, all on one big sheet of paper",
        "two can make a bigger picture than one",
        "", "to be the captain of the cardboard ship",
        "nobody steered, and the ship fell over with both of them inside",
        "a ship needs a captain and a pilot, and at noon they change places.",
        "first they sailed to the North Pole with {hero}, then to a warm island with {friend}",
        "everyone can lead for a while and follow for a while",
        "", "to tell the story",
        "they both talked louder and louder, and nobody understood a word",
        "{hero} tells the beginning, and {friend} tells the end.",
        "it became the funniest story that anybody had ever heard",
        "it is good to let others speak",
        "autumn", "the biggest [pumpkin|apple|pile of leaves]",
        "while they argued, a goat came along and ate most of it",
        "gather what is left and make something for both.",
        "they made a lantern with two faces, one smiling for {hero} and one smiling for {friend}",
        "those who quarrel may both lose",
        "winter", "the sled",
        "while they argued, the sled slid down the hill all alone",
        "sit on it together, one behind the other.",
        "the sled was heavier now, and it flew like the wind",
        "two on a sled are faster than one")},
    {0}};

static const StoryRule rules[] = {
    {"plop", STORY_LIST("plop", "bump", "thump", "suddenly", "oops")},
    {"share.start", STORY_LIST(
        "{one_day}, {hero} and {friend} {played} {place.at}.",
        "{one_day}, {friend} came over to play. At first, they {played}.",
        "{one_day}, {hero} and {friend} met {place.at}. {weather_line}",
        "{weather_line} {hero} and {friend} were together, as always.",
        "{one_day}, {hero} and {friend} had nothing to do. They {played}, but that was soon over.",
        "{one_day}, {hero} invited {friend} to play {place.at}. {aside}",
        "{hero} and {friend} were sitting {place.at} as on any other day. {place.sight}.")},
    {"share.want", STORY_LIST(
        "But then they both wanted {quarrel.want}.",
        "Everything was fine until they both wanted {quarrel.want}.",
        "Then {hero} wanted {quarrel.want}. But {friend} wanted it too.",
        "There was only one problem: {hero} wanted {quarrel.want}, and so did {friend}.",
        "It began with a small thing. {hero} wanted {quarrel.want}. So did {friend}.",
        "And then it happened. They both wanted {quarrel.want}, and neither would give in.",
        "Nobody knows who started it. All at once, they both wanted {quarrel.want}.")},
    {"share.words", STORY_LIST(
        "\"[It is mine|I was first|Me first]!\" {grumbled} {hero}. \"[No, mine|No, me|No, I was "
        "first]!\" {grumbled} {friend}.",
        "\"Give it to me!\" said {hero}. \"Never!\" said {friend}.",
        "\"You always get what you want,\" {grumbled} {friend}. \"That is not true!\" {grumbled} "
        "{hero}.",
        "{hero} [stamped {his} foot|made a fist|stuck out {his} tongue]. {friend} did the same.",
        "\"I want it!\" \"No, I want it!\" Their voices got louder and louder.")},
    {"share.sulk", STORY_LIST(
        "{hero} went and sat in one corner, and {friend} sat in the other.",
        "\"I will never play with you again!\" said {friend}. {hero} felt {angry}.",
        "They turned their backs on each other and did not say a word.",
        "{hero} was {angry}, and {friend} was {angry} too.",
        "For a long time, it was [very quiet|as quiet as in winter].",
        "{friend} went home, and {hero} kicked a stone. But alone, nothing was fun.")},
    {"share.miss", STORY_LIST(
        "After a while, {hero} [felt lonely|missed {friend}|began to feel {sorry}].",
        "{hero} thought about all the good times they had had.",
        "It was boring to be angry.", "{hero} looked over at {friend}. {friend} looked {sad}.",
        "")},
    {"share.elder", STORY_LIST(
        "{elder} came to see what was wrong. \"I have an idea,\" {elder.he} said. "
        "\"{quarrel.idea}\"",
        "{elder} had heard it all. {elder.he} said, \"What about this: {quarrel.idea}\"",
        "\"Why are you so quiet?\" asked {elder}. They told {elder.him}. {elder} smiled. "
        "\"{quarrel.idea}\"",
        "{helper1} was just walking by. {helper_sex.he} laughed and said, \"{quarrel.idea}\"",
        "They went to {elder}. \"Who is right?\" they asked. \"Nobody,\" said {elder}. "
        "\"{quarrel.idea}\"",
        "{elder} did not scold them. \"I had a brother once,\" {elder.he} said. \"We always did it "
        "like this: {quarrel.idea}\"",
        "{elder} shook {elder.his} head. \"Two such good friends!\" {elder.he} said. "
        "\"{Quarrel.idea}\"")},
    {"share.sorry", STORY_LIST(
        "\"I am sorry,\" said {hero}. \"Me too,\" said {friend}.",
        "{hero} and {friend} looked at each other and began to laugh. \"Sorry,\" they both said.",
        "{hero} held out {his} hand, and {friend} took it.",
        "\"Shall we try it?\" asked {hero}. {friend} nodded.",
        "\"You may go first,\" said {hero}. \"No, you,\" said {friend}, and they had to laugh.")},
    {"share.end", STORY_LIST(
        "{moral} {friends_now}", "They did not quarrel any more that {time}. {moral}",
        "\"That was much better than fighting,\" said {friend}. {moral}", "{moral} {goodnight}",
        "And the next time they both wanted the same thing, they knew what to do. {goodnight}")},
    {"share.lesson", STORY_LIST("{quarrel.lesson}", "{quarrel.lesson}",
        "a friend is worth more than any toy",
        "sharing makes everything better")},
    {0}};

static const StoryPlot plots[] = {
    {"sharing", STORY_CAST STORY_FAIR_DAY
     "object:object<toy> look=object_look quarrel:quarrel lesson=share.lesson food:food",
     "{intro} {meet_friend}\n\n{share.start} {small_talk} {share.want} {share.words} In the end, "
        "{quarrel.pull}.\n\n{share.sulk} {share.miss}\n\n{share.elder} {share.sorry} "
        "{quarrel.done}.\n\n{share.end}"},
    {0}};

const StoryContent stories_plots_sharing = {.rules = rules, .tables = tables, .plots = plots};
