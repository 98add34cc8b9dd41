#include "data/stories_words.h"

/* clang-format off */

/* A contest, a boaster, and something that happens half-way. */

static const StoryTable tables[] = {
    {"contest", "what way boast middle finish prize",
     STORY_LIST(
        "", "a running race", "from the big tree to the pond and back", "I am as fast as the wind",
        "half-way, {friend} [<steady>sat down for a nap|<steady>stopped to wave at "
        "everyone|<!steady>tripped over a root|<!steady>slipped on the wet grass]",
        "crossed the line", "a shiny medal",
        "", "a race on one leg", "all around the meadow", "I can hop better than any frog",
        "half-way, {friend} hopped too high and lost {friend.his} balance", "hopped over the line",
        "a wreath of green leaves",
        "summer", "a swimming race", "to the little island and back", "I swim like a fish",
        "half-way, {friend} swallowed some water and had to cough", "touched the bank",
        "a golden shell",
        "winter", "a sled race", "down the long white hill", "my sled is the fastest in the world",
        "at the bend, {friend} did not steer and drove into a heap of snow", "slid over the line",
        "a cup of hot cocoa and a {shade} ribbon",
        "!winter", "a boat race", "down the brook to the old bridge", "nobody can beat my ship",
        "at the first bend, {friend}'s boat got stuck in the reeds",
        "brought {his} boat to the bridge",
        "a little {shade} flag",
        "", "a sack race", "from one end of the field to the other", "I was born in a sack",
        "half-way, {friend} tripped over a corner of the sack and rolled in the grass",
        "jumped over the line",
        "a bag of nuts",
        "", "an egg and spoon race", "around the well and back", "my hands never shake",
        "{friend} ran so fast that {friend.his} egg [jumped off the spoon|went splat]",
        "came in with the egg still on the spoon", "a basket of eggs",
        "!winter", "a snail race", "along the garden wall", "my snail is a champion",
        "half-way, {friend}'s snail [<steady>found a lettuce leaf and stopped to eat|<!steady>fell "
        "off the wall]", "led {his} snail over the chalk line",
        "a crown made of daisies",
        "", "a pie-eating contest", "from the first crumb to the last", "my tummy has no bottom",
        "{friend} ate so fast that {friend.he} got the hiccups", "put down the empty plate",
        "an apron with a star on it",
        "autumn", "a wheelbarrow race", "once around the pumpkin field", "my arms are made of iron",
        "at the corner, {friend}'s wheelbarrow tipped over", "rolled over the line",
        "the biggest pumpkin of all",
        "", "a balloon race", "across the whole field without letting it touch the ground",
        "I can do that with my eyes closed",
        "half-way, {friend}'s balloon flew into a thorn bush and went bang",
        "came in with the balloon in {his} arms",
        "a bag full of balloons",
        "", "a climbing contest", "up to the top of the old rope", "I am half monkey",
        "half-way, {friend}'s arms got tired", "rang the bell at the top", "a {shade} scarf")},
    {0}};

static const StoryRule rules[] = {
    {"race.news", STORY_LIST(
        "{one_day}, there was going to be {contest}: {contest.way}.",
        "Every {season}, there was {contest} {world.land}. It went {contest.way}.",
        "{one_day}, a notice hung on the [tree|gate|notice board]: \"Come to {contest}!\" It was "
        "to go {contest.way}.",
        "\"On Sunday, there will be {contest},\" {helper} told everyone. \"It goes "
        "{contest.way}.\"",
        "Everybody {world.land} was talking about one thing: {contest}, {contest.way}.",
        "{one_day}, {helper} drew a line on the ground. \"Here it starts,\" {helper_sex.he} said. "
        "It was to be {contest}, {contest.way}.",
        "On the last Sunday of {season}, as in every year, there was {contest}. It went "
        "{contest.way}.")},
    {"race.news2", STORY_LIST(
        "The prize was {contest.prize}.", "The winner would get {contest.prize}.",
        "Everybody wanted to win {contest.prize}.",
        "For the winner, there was {contest.prize}.",
        "On a table, for all to see, lay the prize: {contest.prize}.",
        "And the prize? It was {contest.prize}, no more and no less.",
        "{hero} dreamed of the prize: {contest.prize}.")},
    {"race.want", STORY_LIST(
        "{hero} wanted to win more than anything.",
        "{hero} was not very fast, but {he} wanted to try.",
        "{hero} had dreamed of this for [weeks|a whole year].", "{hero} practiced every day.",
        "\"Do you think I can win?\" {hero} asked {elder}. \"Just do your best,\" said {elder}.")},
    {"race.boast", STORY_LIST(
        "\"You cannot win,\" said a {fkind} named {friend}. \"{contest.boast}!\"",
        "a {fkind} named {friend} laughed. \"{contest.boast},\" {friend.he} said.",
        "\"{contest.boast},\" said {friend}, a {fkind} with {friend.his} nose in the air.",
        "The favorite was {friend}, a {fkind} who told everyone, \"{contest.boast}!\"",
        "\"Do not even try,\" said {friend}, the best of them all. \"{contest.boast}.\"",
        "{friend} was the {fkind} who had won last year. \"{contest.boast},\" {friend.he} told "
        "everybody who would listen.",
        "And then there was {friend}. \"{contest.boast}!\" said the {fkind} and yawned.")},
    {"race.go", STORY_LIST(
        "\"[Ready, steady, go|One, two, three, go|On your marks, get set, go]!\" called {helper}.",
        "{helper} waved a {color} flag, and off they went.", "A whistle blew, and it began.",
        "{helper} rang a bell, and everybody started.",
        "{helper} counted down from five, and off they went.",
        "Somebody hit a pot with a spoon: bong! It had begun.",
        "\"May the best one win!\" called {helper} and dropped a {color} handkerchief.",
        "A rooster crowed, and that was the sign.")},
    {"race.lead", STORY_LIST(
        "{friend} was in front at once. {hero} did {his} best, but {he} fell behind.",
        "Soon, {friend} was far ahead.",
        "{hero} was last at first. \"Do not give up,\" {he} told {himself}.",
        "Everybody cheered for {friend}. Only {elder} cheered for {hero}.",
        "{friend} took the lead. {hero} puffed and panted behind {friend.him}.")},
    {"race.crowd", STORY_LIST(
        "The crowd clapped and whistled.", "Somebody beat a drum.", "A dog barked with excitement.",
        "Flags waved everywhere.", "{his} heart beat like a drum.",
        "The little ones sat on the shoulders of the big ones.",
        "", "")},
    {"race.turn", STORY_LIST("But {contest.middle}.", "Then {contest.middle}.",
        "And then it happened: {contest.middle}.")},
    /* Two ways on: keep going, or stop to help. */
    {"race.steady", STORY_LIST(
        "{hero} did not stop. {race.slow} and {he} was the first who {contest.finish}!",
        "{hero} kept on, slowly and steadily. {race.slow} and {he} {contest.finish} before "
        "everyone else did!",
        "\"Now or never,\" thought {hero}. {race.slow} and in the end {he} was the first who "
        "{contest.finish}!",
        "{hero} saw it, but {he} did not laugh and did not slow down. {race.slow} and {he} "
        "{contest.finish}, ahead of everyone!",
        "Bit by bit, {hero} caught up. {race.slow} and {he} {contest.finish} before {friend} even "
        "noticed!")},
    {"race.slow", STORY_LIST(
        "{he} thought of nothing but the finish,", "{he} took one breath after the other,",
        "\"Come on, {hero}!\" everybody shouted,",
        "{his} heart pounded, {his} face was hot,",
        "{he} remembered what {elder} had told {him},",
        "{he} did not look left and did not look right,",
        "Step by step, bit by bit,")},
    {"race.steady_end", STORY_LIST(
        "{hero} got {contest.prize}, and {he} was {proud}. {friend} looked at the ground. \"I "
        "should not have boasted,\" {friend.he} said. {moral}",
        "\"{hero} has won!\" everybody cheered. {friend} came over and shook {his} hand. \"You "
        "were better,\" {friend.he} said. {moral}",
        "The prize was {contest.prize}, and {hero} shared it with {friend}. {moral}",
        "{friend} was {sad}. \"Next time we can practice together,\" said {hero}. {friends_now}",
        "{hero} could not speak for joy. {elder} lifted {him} up so that all could see {him}. The "
        "prize was {contest.prize}. {moral}",
        "{friend} kicked the ground. Then {friend.he} had to laugh. \"Well done,\" {friend.he} "
        "said. {Friends_now}",
        "\"And the winner is {hero}!\" called {helper}. \"Who?\" asked everybody. \"{hero}!\" "
        "{elder} shouted, louder than anyone. {moral}")},
    {"race.help", STORY_LIST(
        "{hero} could have won now. But {he} turned around and helped {friend}.",
        "{hero} saw it and stopped. \"Are you all right?\" {he} asked and helped {friend}.",
        "The way was free for {hero}! But {he} could not leave {friend} like that, so {he} went "
        "back to help.",
        "\"I can win!\" thought {hero}. But then {he} saw {friend}'s face. {he} stopped and helped "
        "{friend.him}.",
        "Everybody else went on. Only {hero} stopped to help {friend}.",
        "{hero} looked at the finish, and {he} looked at {friend}. It was not a hard choice. {he} "
        "helped {friend.him}.")},
    {"race.help2", STORY_LIST(
        "Then they went on together, and they {race.finish2} at the same time.",
        "\"Come on, we can still do it,\" said {hero}. Together they {race.finish2}, last of all, "
        "but laughing.",
        "Somebody else won. But when {hero} and {friend} {race.finish2} side by side, everybody "
        "clapped for them the most.",
        "They had lost so much time that it did not matter any more. Arm in arm, they "
        "{race.finish2}.",
        "\"Go on without me,\" said {friend}. But {hero} shook {his} head. In the end, they "
        "{race.finish2} together.",
        "When they {race.finish2}, most of the others were already eating cake. But what a cheer "
        "there was!")},
    {"race.finish2", STORY_LIST("came to the end", "got to the finish", "reached the finish")},
    {"race.help_end", STORY_LIST(
        "\"A good friend is the best prize,\" said {hero}. {friends_now}",
        "{helper} gave {contest.prize} to both of them, for being kind. {friends_now}",
        "\"Why did you stop for me?\" asked {friend}. \"Because you needed me,\" said {hero}. "
        "{friends_now}",
        "{friend} never boasted again. {moral}",
        "\"Thank you,\" said {friend} softly. \"I was not very nice to you.\" {Moral}")},
    {"race.lesson", STORY_LIST(
        "<steady>slow and steady often wins", "<steady>boasting does not make you faster",
        "<steady>you should never give up too soon",
        "<steady>practice is worth more than big words",
        "<!steady>being kind is better than winning",
        "<!steady>a friend is worth more than a prize",
        "<!steady>there is more than one way to win")},
    {"race.way", STORY_LIST("<+steady>x", "x")},
    {0}};

static const StoryPlot plots[] = {
    {"race", STORY_CAST STORY_FAIR_DAY
        "shade=color contest:contest way=race.way lesson=race.lesson food:food",
     "{intro} {elder_busy}\n\n{race.news} {race.news2} {race.want} {race.boast}\n\n{race.go} "
        "{race.lead} {race.crowd} "
        "{race.turn}\n\n[<steady>{race.steady}\n\n{race.steady_end}|<!steady>{race.help} "
        "{race.help2}\n\n{race.help_end}] [{goodnight}|]"},
    {0}};

const StoryContent stories_plots_race = {.rules = rules, .tables = tables, .plots = plots};
