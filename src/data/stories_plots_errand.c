#include "data/stories_words.h"

/* clang-format off */

/* An errand with too much to remember, and a treasure hunt with riddles. */

static const StoryTable tables[] = {
    {"errand", "item wrong",
     STORY_LIST(
        "", "six eggs", "six pegs", "", "a loaf of bread", "a roll of thread", "", "a bag of rice",
        "a cage of mice", "", "a piece of cheese", "a hive of bees",
        "", "a jar of honey", "a very small bunny", "", "a pound of flour", "a purple flower", "",
        "a bar of soap", "a coil of rope", "", "a bunch of beets", "a bag of sweets",
        "", "a new broom", "a red balloon", "", "a jug of milk", "a yard of silk", "",
        "a ripe pear", "a stuffed bear", "", "some tea", "a golden key",
        "", "a fat goose", "a book by a moose", "", "a sack of coal", "a wooden bowl")},
    {"riddle", "text answer next",
     STORY_LIST(
        "", "I have hands, but I cannot clap", "the old clock", "behind its round face", "",
        "I have a neck, but no head", "a bottle", "rolled up inside it",
        "", "I have teeth, but I never bite", "the comb", "wrapped around it", "",
        "I have a bed, but I never sleep", "the river", "under the flat stone on the bank",
        "", "I have ears, but I cannot hear", "the cornfield", "tied to the tallest stem", "",
        "I go up and down, but I never move", "the stairs", "under the last step",
        "", "I am full of holes, but I hold water", "a sponge", "tucked into the biggest hole", "",
        "I have leaves, but I am no tree", "a book", "between the last two pages",
        "", "I get wet while I dry", "a towel", "folded up in it", "",
        "I have one eye and cannot see", "a needle", "stuck to the sewing box",
        "", "I have a ring, but no finger", "the bell", "tied to the rope", "",
        "I wear a cap, but I have no hair", "a mushroom", "under its cap",
        "", "I have four legs and cannot walk", "the table", "glued to the bottom of it", "",
        "the more you take from me, the bigger I get", "a hole", "right at the bottom of it")},
    {"prize", "what joy",
     STORY_LIST(
        "", "a chest full of chocolate coins", "shared them fairly, one for you and one for me", "",
        "a note that said: \"Turn around!\" And there stood {elder} with a new kite",
        "flew it until the evening", "", "an envelope with two tickets for the circus",
        "went there that very day and laughed at the clown", "", "a puppy with a {color} bow",
        "named it {prize_name}",
        "", "an old photo of {elder} as a child, with the very same map",
        "laughed, because {elder} had made the same face", "", "a telescope made of brass",
        "looked at the moon that night",
        "", "{elder}'s lost ring", "were allowed to bake the biggest cake in the house as a reward",
        "", "a basket with a picnic for everyone", "ate until they could only lie on the grass",
        "", "a box of seeds and a small shovel", "planted the first garden of their own", "",
        "a mirror with the words: \"Here is the treasure!\"",
        "looked into it, cheek to cheek, and had to laugh")},
    {0}};

static const StoryRule rules[] = {
    {"prize_name", STORY_LIST("Treasure", "Riddle", "Pirate", "Lucky", "Penny")},
    {"errand.start", STORY_LIST(
        "{one_day}, {elder} said, \"{hero}, please go to the shop and bring {errand}, {errand2} "
        "and {errand3}.\"",
        "{one_day}, {hero} was sent to the market, all alone for the first time. {he} was to bring "
        "{errand}, {errand2} and {errand3}.",
        "\"Can you remember three things?\" {elder} asked one {time}. \"I need {errand}, {errand2} "
        "and {errand3}.\"",
        "{one_day}, {elder} counted on {elder.his} fingers: \"{errand}, {errand2} and {errand3}. "
        "Can you get that for me, {hero}?\"",
        "There was nothing left in the house. So {hero} was sent out for {errand}, {errand2} and "
        "{errand3}.",
        "\"You are big enough to shop alone,\" said {elder} one {time}. \"Please bring {errand}, "
        "{errand2} and {errand3}.\"")},
    {"errand.sure", STORY_LIST("\"I do not need a list,\" said {hero}. \"I have a good head.\"",
        "\"Of course!\" said {hero} and was already out of the door.",
        "\"I will not forget anything,\" {hero} promised.",
        "{hero} said the words again and again, so as not to forget them.")},
    {"errand.way", STORY_LIST(
        "On the way, {he} met {friend1}, who told {him} a long story.",
        "But on the way, there was a dog that wanted to play.",
        "On the corner, a band was playing, and {hero} stopped to listen.",
        "Then {he} tripped over a stone, and all the words were shaken up in {his} head.",
        "On the bridge, {he} saw a boat go by and forgot everything else.")},
    {"errand.muddle", STORY_LIST(
        "\"What was it again?\" {hero} wondered. \"Was it {errand.wrong}? And {errand2.wrong}? And "
        "{errand3.wrong}?\"",
        "Now the words in {his} head were: {errand.wrong}, {errand2.wrong} and {errand3.wrong}. "
        "\"That sounds right,\" said {hero}.",
        "\"{errand.wrong}, {errand2.wrong} and {errand3.wrong},\" {hero} told {helper1}. "
        "{helper_sex.he} looked {surprised}, but {helper_sex.he} packed it all up.",
        "In the shop, {hero} stood on tiptoe. \"I would like, I would like,\" {he} said. Then it "
        "came out: \"{errand.wrong}, {errand2.wrong} and {errand3.wrong}!\"",
        "At the counter, {his} head was as empty as a drum. \"{errand.wrong}?\" {he} tried. \"And "
        "{errand2.wrong}? And {errand3.wrong}?\" {helper} shrugged and packed it all.",
        "All the way, {he} hummed a little song about {errand.wrong}, {errand2.wrong} and "
        "{errand3.wrong}. It rhymed, so it had to be right.")},
    {"errand.home", STORY_LIST(
        "When {elder} opened the basket, {elder.he} could not say a word. Out came {errand.wrong}, "
        "{errand2.wrong} and {errand3.wrong}.",
        "\"Here you are!\" said {hero} proudly and put everything on the table. {elder} looked at "
        "it for a long time. \"{errand.wrong}?\" {elder.he} asked.",
        "{elder} looked into the basket. \"I asked for {errand},\" {elder.he} said slowly. \"And "
        "this is {errand.wrong}!\"",
        "At home, {elder} took the things out of the bag, one by one: {errand.wrong}, "
        "{errand2.wrong}, {errand3.wrong}. {elder.he} had to sit down.",
        "\"That was quick!\" said {elder}. Then {elder.he} saw {errand.wrong}. Then {elder.he} saw "
        "{errand2.wrong}. And at the bottom was {errand3.wrong}.",
        "\"Did you get {errand}?\" asked {elder}. {hero} proudly held up {errand.wrong}.")},
    {"errand.feel", STORY_LIST("{hero} turned as red as a beet.",
        "\"I am so sorry,\" {hero} {sobbed}.", "{feel_sad}",
        "\"{oh_no},\" said {hero}. \"It sounded so right.\"")},
    {"errand.laugh", STORY_LIST("But {elder} began to laugh and could not stop.",
        "But {elder} only {smiled}. \"When I was small, I once came home with a goat,\" {elder.he} "
        "said.", "{elder} took {him} by the hand. \"Come, we will go again together.\"")},
    {"errand.end", STORY_LIST(
        "The next time, {hero} took a list. But they kept {errand2.wrong}, because it was so nice "
        "to have. {moral}",
        "They went back and changed it all, all but {errand3.wrong}. That is still on the shelf "
        "today. {moral}",
        "From then on, {hero} drew little pictures of everything on {his} hand: {errand}, "
        "{errand2} and {errand3}. {moral}",
        "So they took back {errand.wrong} and came home with {errand}. {moral}",
        "And what became of {errand.wrong}? {friend1} was glad to have it. {moral}",
        "That evening, they laughed about it with the whole family, and {hero} laughed the most. "
        "{moral}",
        "\"Next time we will go together,\" said {elder}. And so they did. {goodnight}",
        "{hero} wrote a song about it, with {errand}, {errand2} and {errand3} in every verse. "
        "{moral}")},
    {"errand.lesson", STORY_LIST("a list is no shame", "everybody mixes things up sometimes",
        "it is good to listen with both ears", "a mistake can make a good story",
        "a laugh is better than a scolding")},

    {"hunt.start", STORY_LIST(
        "{one_day}, {hero} and {friend} found an old [map|letter|note] {place.spot}. On it was "
        "written: \"{riddle}. Who am I?\"",
        "{one_day}, there was a note under {hero}'s [pillow|plate|door]. {he} read it to {friend}: "
        "\"{riddle}. What am I?\"",
        "\"A treasure hunt!\" {elder} said one {time} and gave {hero} and {friend} a slip of "
        "paper. It said: \"{riddle}. Find me!\"",
        "{one_day}, a bottle lay {place.spot}. Inside was a slip of paper. {friend} read it aloud: "
        "\"{riddle}. Seek me, and you shall find!\"",
        "{one_day}, {hero} saw an arrow made of pebbles {place.at}. It pointed at a note: "
        "\"{riddle}. Do you know me?\"",
        "It was {friend}'s birthday, and there was a riddle on the cake: \"{riddle}. Where am I?\" "
        "{hero} helped {friend.him} to think.",
        "{helper} winked at {hero} and {friend}. \"Somebody has left this for you,\" "
        "{helper_sex.he} said. On the paper was written: \"{riddle}. Guess!\"")},
    {"hunt.think", STORY_LIST("They {thought3}.", "{friend} scratched {friend.his} head.",
        "\"Hm,\" said {hero}. \"Hm,\" said {friend}.", "\"That makes no sense,\" said {friend}.",
        "They walked up and down and thought.")},
    {"thought3", STORY_LIST("thought and thought", "sat down to think", "looked at each other",
        "guessed and guessed")},
    {"hunt.wrong", STORY_LIST(
        "\"A [horse|shoe|king|teapot|snowman|monster|potato]?\" asked {friend}. No, that was not "
        "it.",
        "\"Is it [Grandpa|a spider|my sister|a cloud|a crocodile]?\" said {hero}, and they "
        "laughed.", "", "")},
    {"hunt.first", STORY_LIST(
        "Then {hero} {jumped2}. \"It is {riddle.answer}!\" They ran and looked. There was another "
        "note, {riddle.next}.",
        "\"{riddle.answer}!\" they both cried at the same time. And really, {riddle.next} was the "
        "next note.")},
    {"hunt.second", STORY_LIST(
        "It said: \"{riddle2}.\" This time, {friend} knew it at once. \"{riddle2.answer}!\" "
        "{friend.he} called. The last note was {riddle2.next}.",
        "On this one was written: \"{riddle2}.\" That was harder. They asked {helper1}, and "
        "{helper_sex.he} whispered, \"Could it be {riddle2.answer}?\" It was! The third note was "
        "{riddle2.next}.",
        "\"{riddle2},\" {hero} read aloud. They guessed until lunch. \"{riddle2.answer}, of "
        "course!\" cried {friend}. And {riddle2.next}, they found the last note.")},
    {"hunt.third", STORY_LIST(
        "The last one said: \"{riddle3}.\" \"I know, I know!\" shouted {hero}. "
        "\"{riddle3.answer}!\" And there, {riddle3.next}, was an arrow that pointed to the ground.",
        "\"{riddle3},\" it said there. {they_two} looked at each other. \"{riddle3.answer}!\" And "
        "{riddle3.next} hung a little golden key.")},
    {"hunt.prize", STORY_LIST("The treasure was {prize}. {they_two} {prize.joy}.",
        "They dug and pulled and opened the lid. Inside was {prize}. They {prize.joy}.",
        "And what was it? It was {prize}! They {prize.joy}.")},
    {"hunt.end", STORY_LIST("\"The best part was the search,\" said {hero}. {moral}", "{moral}",
        "{goodnight}", "And the next week, they made a treasure hunt for {elder}. {goodnight}",
        "\"Who wrote the notes?\" asked {friend}. {elder} just whistled a tune.")},
    {"hunt.lesson", STORY_LIST("two heads are better than one", "a good riddle needs a cool head",
        "the way can be as good as the goal", "it is fun to think hard",
        "the best treasures are not made of gold")},
    {0}};

static const StoryPlot plots[] = {
    {"errand", STORY_CAST STORY_FAIR_DAY
        "errand:errand errand2:errand errand3:errand lesson=errand.lesson",
     "{intro}\n\n{elder_busy} {errand.start} {errand.sure}\n\n{errand.way} [{aside}|] "
        "{errand.muddle}\n\n{errand.home} {errand.feel} {errand.laugh}\n\n{errand.end}"},
    {"hunt", STORY_CAST STORY_FAIR_DAY
        "riddle:riddle riddle2:riddle riddle3:riddle prize:prize lesson=hunt.lesson",
     "{intro} {meet_friend} {small_talk}\n\n{hunt.start} {hunt.think} {hunt.wrong} "
        "{hunt.first}\n\n{hunt.second} [{hunt.third}|{hunt.third}|]\n\n{hunt.prize} {hunt.end}"},
    {0}};

const StoryContent stories_plots_errand = {.rules = rules, .tables = tables, .plots = plots};
