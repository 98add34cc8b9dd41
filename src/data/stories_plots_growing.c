#include "data/stories_words.h"

/* clang-format off */

/* A seed, a long wait, a trouble, and something to share. */

static const StoryTable tables[] = {
    /* seed: what is planted, with its article. sprout, grown: how it looks. fruit: what it is. use:
     * what they do with it in the end, past tense with "they" before it. */
    {"plant", "seed sprout grown fruit use",
     STORY_LIST(
        "+flower", "a striped seed", "two round leaves", "taller than {elder}", "a sunflower",
        "shook out the seeds and gave one to every child {world.land}",
        "", "a flat white seed", "a hairy little stem", "all over the yard with its long arms",
        "a pumpkin",
        "made a lantern and a big pot of soup",
        "", "a wrinkled pea", "a curl like a pig's tail", "all the way up the fence",
        "a row of pea pods",
        "sat in the sun and ate the peas right out of the pods",
        "", "a hard brown bean", "a bent green neck", "past the window and up to the roof",
        "a giant bean plant",
        "cooked beans for the whole street",
        "", "a tiny black seed", "a thin green thread", "into a fat orange root", "a carrot",
        "pulled together, and when it came out they all fell on their backs",
        "+flower", "a brown bulb", "a green tip", "up straight like a soldier",
        "a [red|yellow|purple] tulip",
        "put it into a glass for everyone to see",
        "", "a small flat seed", "a furry stem", "over the stick that held it",
        "a tomato plant with {bignumber} tomatoes",
        "cooked the best tomato soup of the year",
        "", "a cherry stone", "a little brown twig", "year after year until it was a tree",
        "a cherry tree",
        "hung cherries over their ears and ate all the others",
        "", "an acorn", "a small crooked twig", "slowly, slowly, a bit more every year", "an oak",
        "hung a swing on the lowest branch",
        "", "a shiny apple seed", "a twig with two leaves", "until the birds came to sit in it",
        "an apple tree",
        "baked the first apple pie",
        "+flower", "a seed as fine as dust", "a cushion of tiny leaves", "into a blue carpet",
        "a bed of forget-me-nots",
        "gave a bunch to everyone who looked sad",
        "", "a slice of old potato", "a bushy plant", "under the ground where nobody could see it",
        "a basket full of potatoes",
        "baked them in the fire and ate them with salt",
        "", "a melon seed", "a trailing stem", "as round as a ball", "a watermelon",
        "cut it into slices and spat the seeds as far as they could",
        "", "a strawberry plant", "one white flower", "closer to the ground",
        "a bowl of strawberries",
        "ate them with cream, and nobody spoke until the bowl was empty",
        "+flower", "a round seed like a bead", "a climbing stem", "around and around the stick",
        "a curtain of sweet peas",
        "opened all the windows, because it smelled so good")},
    {"pest", "what fix",
     STORY_LIST(
        "", "a fat snail had eaten a leaf",
        "carried the snail to a heap of old lettuce, and it was happy there",
        "", "the leaves were hanging down, because it had not rained for {number} days",
        "carried water in {his} [cup|hat|hands] until the "
        "earth was dark and wet",
        "", "a storm had bent the stem", "tied it to a stick with a soft ribbon",
        "", "a crow wanted to dig it up",
        "made a scarecrow out of an old coat and stood it right beside the plant",
        "", "the earth was dry, because {hero} had forgotten to water it for a whole week",
        "said sorry, gave it water, and never forgot it again",
        "", "tiny green bugs sat all over the stem",
        "found {number} ladybugs, and they ate the bugs for breakfast",
        "", "it stood in the shade and was pale and thin", "moved the pot to a sunny place",
        "", "weeds had grown all around it",
        "pulled them out, one by one, until {his} fingers were green",
        "", "a ball had landed right on top of it", "put a little fence around it, made of sticks",
        "", "a frost came in the night",
        "covered it with a warm sack and stayed up late to watch over it")},
    {0}};

static const StoryRule rules[] = {
    {"grow.seed", STORY_LIST(
        "{one_day}, {elder} gave {hero} {plant.seed}. \"Put it into the ground and wait,\" "
        "{elder.he} said.",
        "{one_day}, {hero} found {plant.seed} [in {his} pocket|on the path|in an old drawer]. "
        "\"What will grow out of it?\" {he} wondered.",
        "{one_day}, {helper1} put {plant.seed} into {hero}'s hand. \"It looks like nothing,\" said "
        "{helper}. \"But wait and see.\"",
        "{hero} wanted to grow something {himself}. {one_day}, {he} got {plant.seed} from "
        "{elder}.",
        "In a paper bag at the back of a drawer, {hero} found {plant.seed}. \"Let us see what it "
        "is,\" said {elder}.",
        "{friend1} had two of them and gave one to {hero}: {plant.seed}. \"Mine will grow "
        "faster,\" {friend.he} said.",
        "A bird dropped something right in front of {hero}'s feet. It was {plant.seed}. \"A "
        "present!\" said {hero}.",
        "{one_day}, {hero} traded {his} best marble for {plant.seed}. Everybody laughed. \"Wait "
        "and see,\" said {hero}.")},
    {"grow.plant", STORY_LIST(
        "{hero} dug a [little|deep|small] hole, laid it in, and covered it with earth.",
        "{hero} planted it [beside the fence|under the window|in a {color} pot|next to the gate] "
        "and gave it some water.",
        "{he} pushed it into the earth with one finger and said, \"Good night, sleep well.\"",
        "{hero} found a sunny place, made a hole and put it in. Then {he} watered it.",
        "{hero} filled an old [boot|teapot|bucket|hat] with earth and put it in.",
        "With a spoon, {he} dug a hole behind the house. \"This is your bed,\" {he} said.",
        "{hero} made a little sign with {his} name on it and stuck it into the earth beside the "
        "seed.",
        "{he} laid it into the ground, patted the earth flat, and gave it {number} drops of "
        "water.")},
    {"grow.wait", STORY_LIST(
        "The next morning, {he} ran out to look. Nothing! {he} waited one day, two days, {number} "
        "days. Still nothing.",
        "{he} watered it every day. But nothing happened.",
        "\"When will it come?\" {hero} asked every morning. \"Soon,\" said {elder}.",
        "Day after day, {he} sat beside it and stared at the ground. {friend1} laughed. \"Nothing "
        "will ever grow there,\" {friend.he} said.",
        "{hero} sang to it, told it stories, and even read it a poem. But the earth stayed bare.")},
    {"grow.doubt", STORY_LIST(
        "\"Maybe I should dig it up and look,\" said {hero}. \"No,\" said {elder}. \"Good things "
        "need time.\"",
        "{hero} wanted to give up. \"Give it one more week,\" said {elder}.",
        "Waiting was the hardest part.", "",
        "{hero} was not good at waiting, but {he} waited all the same.")},
    {"grow.sprout", STORY_LIST(
        "Then, one morning, there was something green: {plant.sprout}! {hero} {jumped}.",
        "And then, after a warm rain, {he} saw {plant.sprout}. \"It is alive!\" {cheered} {hero}.",
        "{at_last}, the earth cracked, and out came {plant.sprout}. {hero} was {happy}.",
        "\"Come quickly!\" {hero} called one day. There was {plant.sprout}.",
        "And when {hero} had almost forgotten it, there was {plant.sprout}, no longer than a "
        "finger.",
        "One morning, {elder} called, \"{hero}, come here, and bring your glasses!\" There it was: "
        "{plant.sprout}.",
        "It was raining, but {hero} ran out in {his} socks, for {he} had seen {plant.sprout} from "
        "the window.",
        "First there was a crack in the earth. The day after, there was {plant.sprout}. "
        "{feel_happy}")},
    {"grow.trouble", STORY_LIST(
        "But one day, {pest}. {hero} {pest.fix}.",
        "Then there was trouble: {pest}. \"{oh_no}!\" cried {hero}. But then {he} {pest.fix}.",
        "It was not always easy. One day, {pest}. So {hero} {pest.fix}.",
        "One morning, {pest}. {hero} was {sad}, but only for a moment. Then {he} {pest.fix}.",
        "Then came a bad day: {pest}. {friend1} shook {friend.his} head. But {hero} {pest.fix}.",
        "When {hero} came home from a visit, {pest}. {he} did not cry for long. {he} {pest.fix}.",
        "\"Look!\" cried {friend1}. {pest}. But {hero} knew what to do and {pest.fix}.",
        "Just when everything went well, {pest}. \"Do not give up,\" said {elder}. So {hero} "
        "{pest.fix}.")},
    {"grow.up", STORY_LIST(
        "After that, it grew and grew, {plant.grown}.", "Week after week it grew, {plant.grown}.",
        "And it grew {plant.grown}.",
        "The sun shone, the rain fell, and it grew {plant.grown}.",
        "By and by, it grew {plant.grown}. {hero} measured it every Sunday.",
        "Nobody had ever seen such a thing: it grew {plant.grown}.",
        "And because {hero} sang to it, it grew {plant.grown}.")},
    {"grow.done", STORY_LIST(
        "{at_last}, everyone could see what it was: {plant.fruit}!",
        "And what was it? It was {plant.fruit}!",
        "It was {plant.fruit}, the finest {world.land}.",
        "\"Look at that!\" said {elder}. It was {plant.fruit}, and {hero} had done it all alone.",
        "\"Now I know what you are,\" said {hero}. It was {plant.fruit}!",
        "{helper} came by and stopped. \"What a fine thing!\" {helper_sex.he} said. It was "
        "{plant.fruit}.",
        "And so, out of almost nothing, there was {plant.fruit}.",
        "On the last day of summer, it was ready: {plant.fruit}, and not a small one.")},
    {"grow.end", STORY_LIST(
        "{hero} called {friend1}, and together with {elder} they {plant.use}. {moral}",
        "Everybody came to see it. In the end, they {plant.use}. {moral}",
        "{hero}, {friend1} and {elder} {plant.use}. \"{nice_plant}\" said {friend}. {goodnight}",
        "They {plant.use}. And {hero} kept one seed for the next year.",
        "{hero} was {proud}. With {his} friends, {he} celebrated: they {plant.use}. {moral}")},
    {"nice_plant", STORY_LIST("I was wrong!", "It was worth the wait!",
        "Next year, I want to help!", "Who would have thought it!")},
    {"grow.lesson", STORY_LIST(
        "good things need time", "big things start small", "you must not give up too soon",
        "a little care every day works wonders",
        "what you grow yourself tastes best", "waiting is hard, but it is worth it")},
    {0}};

static const StoryPlot plots[] = {
    {"growing",
        "world:world season:season<spring> hero:sex hero_kind:animal hero=hero_name trait:trait "
     "hobby:hobby hobby2:hobby friend:sex friend_kind:animal friend=friend_name elder:elder "
     "helper_sex:sex helper:helper helper=helper_name time:time<day> weather:weather<fair> "
        "plant:plant pest:pest lesson=grow.lesson",
     "{intro}\n\n{grow.seed} {grow.plant}\n\n{grow.wait} {grow.doubt}\n\n{grow.sprout} "
        "{grow.trouble} {grow.up}\n\n"
     "{grow.done} {grow.end}"},
    {0}};

const StoryContent stories_plots_growing = {.rules = rules, .tables = tables, .plots = plots};
