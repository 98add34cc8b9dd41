#include "data/stories_words.h"

/* clang-format off */

/* Something is cooked, something goes wrong, and it tastes good all the same; and a pot of soup
 * that grows with every guest. */

static const StoryTable tables[] = {
    /* start: how it begins. slip: the mistake. found: how it is noticed. turn: what it becomes. */
    {"dish", "name start slip found turn",
     STORY_LIST(
        "+dough", "a birthday cake", "They broke the eggs and stirred until their arms hurt",
        "took the jar with salt instead of sugar",
        "The first bite made everyone cough",
        "They baked little crackers out of the rest, and those were gone in a minute",
        "+dough", "pancakes", "They whisked milk and flour into a smooth batter",
        "threw a pancake so high that it stuck to the ceiling",
        "Everybody looked up and waited",
        "It came down again, right onto {friend}'s plate, and they gave it a name: the flying "
        "pancake",
        "+dough", "an apple pie", "They peeled {bignumber} apples in long curls",
        "forgot the apples and put an empty pie into the oven",
        "When they cut it open, there was nothing inside",
        "They filled it with cream and berries, and it was even better",
        "", "a big pot of soup", "They cut carrots and leeks and filled the pot with water",
        "dropped the whole pepper jar into it",
        "After one spoonful, everybody had to sneeze",
        "They added {number} more potatoes and a lot of cream, and then there was enough for all "
        "the neighbors",
        "+dough", "a loaf of bread", "They kneaded the dough and sang to it",
        "forgot the dough by the warm stove",
        "It rose and rose, over the edge of the bowl and onto the floor",
        "They made {bignumber} little rolls out of it and gave them away on the street",
        "+dough", "cookies", "They rolled out the dough and cut out stars",
        "left the cookies in the oven for too long",
        "A dark cloud came out of the oven",
        "They broke off the black edges and dipped the rest in honey",
        "", "a fruit salad", "They cut up everything that was sweet and ripe",
        "put an onion in, because it looked like an apple",
        "{friend} bit on it and made a face like a lemon",
        "They picked out the onion and laughed every time somebody found another piece",
        "", "pudding", "They warmed the milk and stirred slowly",
        "stopped stirring to look at a [bird|beetle|rainbow]",
        "The pudding was full of lumps", "They called it pebble pudding, and everyone wanted more",
        "", "jam", "They washed the berries and weighed the sugar",
        "put the hot jars on the window sill, where the wasps could smell them",
        "The window was black with wasps",
        "They put one jar outside for the wasps, and there was peace",
        "+dough", "dumplings", "They rolled little balls between their hands",
        "let one of them roll away, under the cupboard",
        "The dog found it before anybody else did",
        "From that day on, the dog always got a dumpling of its own",
        "+dough", "pizza", "They pulled the dough until it was as big as a wheel",
        "pulled too hard, and there was a hole in the middle",
        "One could look right through it",
        "They put an egg into the hole, and it looked like the sun",
        "", "lemonade", "They squeezed {bignumber} lemons", "forgot the sugar",
        "Everyone who tasted it squinted with one eye",
        "They put in honey, drop by drop, until it was just right")},
    /* What each guest brings to the pot. */
    {"comer", "who brings",
     STORY_LIST(
        "", "a thin cat", "a small fish", "", "an old woman with a stick", "two potatoes",
        "", "a soldier on the way home", "a pinch of salt", "", "a traveling singer", "an onion",
        "", "a girl with a broken shoe", "a handful of peas", "", "a boy with a goat",
        "a jug of milk",
        "", "a lost duck", "some green herbs", "", "a chimney sweep", "a fat sausage",
        "", "the mail carrier", "a bunch of carrots", "", "a tired peddler", "a clove of garlic",
        "", "a very small mouse", "one grain of corn", "", "the night watchman", "a turnip",
        "", "a hungry crow", "three beans", "", "a fisher with wet boots", "a piece of ginger")},
    {0}};

static const StoryRule rules[] = {
    {"cook.start", STORY_LIST(
        "{one_day}, {hero} wanted to make {dish} for {elder}. {friend1} came to help.",
        "{one_day}, {hero} and {friend1} were hungry. \"Let us make {dish},\" said {hero}.",
        "{one_day}, {elder} was ill in bed, so {hero} and {friend1} decided to make {dish}.",
        "It was {elder}'s birthday, and {hero} wanted to make {dish}. \"I will help you,\" said "
        "{friend1}.",
        "{one_day}, it was too wet to play outside. \"We could make {dish},\" {friend1} said.")},
    {"cook.ready", STORY_LIST(
        "They put on aprons and washed their hands.", "{hero} read the recipe aloud.",
        "\"How hard can it be?\" said {hero}.",
        "{hero} stood on a chair to reach the bowl.", "")},
    {"cook.mess", STORY_LIST(
        "<dough>Soon there was flour on the table, on the floor, and on {friend}'s nose.",
        "They tasted a little, and then a little more.",
        "{hero} hummed a tune [and worked|all the while|and another one].",
        "Drops and crumbs flew in all directions.", "Everything smelled wonderful.",
        "\"This will be the best {dish.best} in the world,\" said {hero}.")},
    {"dish.best", STORY_LIST("meal", "surprise", "supper")},
    {"cook.slip", STORY_LIST(
        "But then {hero} {dish.slip}.", "Nobody noticed that {hero} {dish.slip}.",
        "{hero} was so excited that {he} {dish.slip}.",
        "And because they were talking and laughing, {hero} {dish.slip}.",
        "What nobody saw was this: {hero} {dish.slip}.",
        "A fly flew by, {hero} looked up, and so {he} {dish.slip}.",
        "It was {friend} who distracted {him} with a joke, and {hero} {dish.slip}.",
        "{hero} was proud, a bit too proud, and {he} {dish.slip}.")},
    {"cook.feel", STORY_LIST(
        "\"{oh_no}!\" said {hero}. {he} felt {sad}.",
        "{hero} turned red. \"It is all my fault,\" {he} {sobbed}.",
        "{hero} {cried}. All that work for nothing!",
        "\"Now everything is spoiled,\" {hero} {sobbed}.",
        "{feel_sad} \"I am a bad cook,\" {he} said.",
        "{hero} looked at {friend}. {friend} looked at {hero}. \"{oh_no},\" they said.",
        "\"We have to start all over again,\" {friend} groaned.",
        "{his} ears turned red. \"I am sorry,\" {he} {whispered}.")},
    {"cook.cheer", STORY_LIST(
        "But {friend} began to laugh. \"Wait, I have an idea,\" {friend.he} said.",
        "\"Nothing is spoiled,\" said {elder}. \"Let us think.\"",
        "{elder} {looked} into the pot and {smiled}. \"That happened to me once, too,\" {elder.he} "
        "said.",
        "\"Do not worry,\" said {friend}. \"The best things in the kitchen were mistakes at "
        "first.\"",
        "\"Stop!\" called {friend}. \"Do not throw it away. I know what we can do.\"",
        "{elder} tasted it and nodded slowly. \"It only needs a little help,\" {elder.he} said.",
        "There was a silence. Then somebody giggled, and soon they were all laughing. \"Let us "
        "save it,\" said {hero}.",
        "\"In my family, we never throw anything away,\" said {friend}, and {friend.he} rolled up "
        "{friend.his} sleeves.")},
    {"cook.end", STORY_LIST(
        "{dish.turn}. \"That is delicious!\" said {elder}. {moral}", "{dish.turn}. {goodnight}",
        "{dish.turn}. {moral}",
        "{dish.turn}. {elder} asked for the recipe. {hero} and {friend} looked at each other and "
        "giggled.",
        "{dish.turn}. {hero} licked the spoon and sighed happily. {moral}",
        "{dish.turn}. There was not a crumb left. {goodnight}",
        "{dish.turn}. \"Tomorrow we will do it again,\" said {friend}. {moral}",
        "{dish.turn}. The kitchen looked like a battlefield, but everybody was full and happy. "
        "{moral}")},
    {"cook.lesson", STORY_LIST(
        "a mistake can turn into something good", "it is more fun to cook together",
        "it pays to read the label first",
        "with a bit of luck, everything can be saved", "laughing is the best spice")},

    {"soup.start", STORY_LIST(
        "One cold {time}, {hero} was alone at home and cooked a [small|tiny] pot of soup. It was "
        "just enough for one.",
        "One {time} in a bad year, {hero} had only a little pot of thin soup for supper.",
        "It was a {season} evening, and {hero} was very hungry. On the stove stood a small pot of "
        "soup.",
        "There was once a long, hard {season}, and {hero} had nothing left but a [small|little] "
        "pot of soup.",
        "{hero} had worked hard all day. Now {he} wanted to eat {his} soup in peace. The pot was "
        "not very big.",
        "On the coldest evening of the year, {hero} put a [small|tiny] pot of soup on the stove, "
        "just for {himself}.")},
    {"soup.knock", STORY_LIST(
        "{he} had just picked up the spoon when there was a knock at the door. Outside stood "
        "{comer}.",
        "Knock, knock! {comer} stood at the door.",
        "Before {he} could begin, somebody knocked. It was {comer}.",
        "{he} had just sat down when {he} heard a soft knock. {comer} stood there, wet and cold.",
        "Then something scratched at the door. {hero} opened it, and there was {comer}.",
        "The first spoon was half-way to {his} mouth. Then it knocked. It was {comer}.",
        "A voice called from outside. {hero} looked out of the window and saw {comer}.")},
    {"soup.ask", STORY_LIST(
        "\"I am so hungry,\" said the visitor. \"But I have {comer.brings}.\"",
        "\"May I warm myself?\" the visitor asked. \"All I have is {comer.brings}.\"",
        "\"It smells so good here,\" said the visitor and held out {comer.brings}.",
        "\"I saw your light,\" said the visitor. \"I have nothing but {comer.brings}.\"",
        "\"Have you a little room by the stove?\" asked the visitor. \"You may have {comer.brings} "
        "for it.\"",
        "The visitor did not say a word, but only showed {him} {comer.brings}.",
        "\"I have walked all day,\" the visitor said. \"And {comer.brings} is all that I own.\"")},
    {"soup.think", STORY_LIST(
        "{hero} looked at the little pot. There was not enough for two. Still, {he} said, \"Come "
        "in!\"",
        "\"Then we will put that in as well,\" said {hero}. \"Come in and sit down.\"",
        "{hero} thought for a moment. Then {he} added more water and whatever there was.",
        "{his} tummy said no, but {his} heart said yes. \"Please come in,\" said {hero}.",
        "\"A little soup is better than none,\" said {hero} and set out a second bowl.",
        "{hero} looked at the pot, and then at the visitor. {he} moved over on the bench and "
        "smiled.",
        "\"Half is enough for me,\" said {hero}. And {he} put everything into the pot.")},
    {"soup.more", STORY_LIST(
        "Soon there was another knock. It was {comer2.who}, who brought {comer2.brings}. And then "
        "came {comer3.who}, who brought {comer3.brings}.",
        "But that was not all. After that came {comer2.who}, who brought {comer2.brings}, and "
        "{comer3.who}, who brought {comer3.brings}.",
        "Then came {comer2.who} and gave {him} {comer2.brings}, and after a while {comer3.who} put "
        "down {comer3.brings} on the table.",
        "It knocked again, and it was {comer2.who}, and in a bag there was something: "
        "{comer2.brings}. And behind, in the dark, stood {comer3.who} and held up {comer3.brings}.",
        "Word got around. First came {comer2.who}, who had {comer2.brings}. Then came "
        "{comer3.who}, who had {comer3.brings}.",
        "\"Is there room for me?\" called {comer2.who} and threw {comer2.brings} into the pot. "
        "\"And for me?\" asked {comer3.who} and added {comer3.brings}.")},
    {"soup.grow", STORY_LIST(
        "{hero} had to take a bigger pot, and then the biggest one of all. It bubbled and smelled "
        "like a feast.",
        "Everything went into the pot. {hero} stirred and tasted and stirred again.",
        "With every guest, the soup got better.",
        "The pot was full to the brim. The smell went out of the window and down the whole street.",
        "Everybody stirred once, and everybody made a wish.",
        "\"It needs a bit of this and a bit of that,\" said the guests. And it got better and "
        "better.",
        "One cut, one stirred, one sang. It was as warm and loud as at a fair.")},
    {"soup.eat", STORY_LIST(
        "They sat close together around the table, and there was enough for all of them.",
        "They ate until the pot was empty and all the faces were red and happy.",
        "Nobody stayed hungry, and there was even a bowl left for [the next day|the "
        "dog|{friend1}].",
        "There were not enough spoons, so they took turns, and that made them laugh.",
        "They ate and told stories, and nobody was a stranger any more.",
        "When everyone had eaten, the pot was still half full. Nobody could explain it.",
        "Even the [cat|dog|mouse behind the stove] had a little bowl, and the windows were white "
        "with steam.")},
    {"soup.end", STORY_LIST(
        "{hero} had wanted a quiet supper. Instead, {he} had the finest evening of the year. "
        "{moral}", "Afterwards, they sang until the candles went out. {moral}",
        "\"I thought that I did not have enough to share,\" said {hero}. {moral}",
        "From then on, they met every week, and everyone brought something for the pot.",
        "\"It was the best soup of my life,\" said {hero}. \"And I do not even know what was in "
        "it!\"",
        "Before they left, each of them shook {hero}'s hand. {moral}",
        "{hero} washed the big pot and put it where {he} could reach it. You never know who will "
        "knock. {moral}",
        "That night, the house was full of sleeping guests, and {hero} was {happy}. {moral}")},
    {"soup.lesson", STORY_LIST(
        "sharing makes a little into a lot", "there is always enough for one more",
        "a meal tastes best in company",
        "everyone has something to give", "an open door brings more than it takes")},
    {0}};

static const StoryPlot plots[] = {
    {"cooking", STORY_CAST
        "time:time<day> weather:weather<wet> dish:dish lesson=cook.lesson "
        "food:food",
     "{intro}\n\n{cook.start} {cook.ready} {dish.start}. {cook.mess}\n\n{cook.slip} {dish.found}. "
        "{cook.feel}\n\n{cook.cheer} {cook.end}"},
    {"soup", STORY_CAST
        "time:time<dark> weather:weather comer:comer comer2:comer comer3:comer "
        "lesson=soup.lesson",
     "{intro}\n\n{soup.start} {night_line}\n\n{soup.knock} {soup.ask} {soup.think}\n\n{soup.more} "
        "{soup.grow}\n\n{soup.eat} {soup.end}"},
    {0}};

const StoryContent stories_plots_kitchen = {.rules = rules, .tables = tables, .plots = plots};
