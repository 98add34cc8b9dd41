#include "data/stories_words.h"

/* clang-format off */

/* A wish comes true, and it is too much of a good thing. */

static const StoryTable tables[] = {
    {"giver", "who how call",
     STORY_LIST(
        "", "a golden fish", "{hero} had pulled a fishing hook out of its mouth", "the fish",
        "+any_f", "a tiny fairy", "{hero} had freed her from a spider's web", "the fairy",
        "", "an old lamp with a spirit in it", "{hero} had rubbed the dust off with {his} sleeve",
        "the spirit",
        "", "a star that had fallen out of the sky", "{hero} had put it back on the highest hill",
        "the star",
        "", "a talking frog", "{hero} had carried it across the road", "the frog",
        "+any_m", "a little gray man with a long beard",
        "{hero} had untangled his beard from a thorn bush", "the little man",
        "", "an owl with a silver crown", "{hero} had found the crown in the moss", "the owl",
        "+any_f", "a witch with a friendly face", "{hero} had found her broom", "the witch",
        "", "a white cat with green eyes", "{hero} had shared {his} milk with it", "the cat",
        "", "a snail with a shell of pure gold", "{hero} had helped it over a wall", "the snail",
        "+any_m", "the man in the moon", "{hero} had waved at him every night",
        "the man in the moon",
        "+any_m", "a grumpy gnome", "{hero} had brought back his red cap", "the gnome")},
    {"magic", "wish true trouble undo after",
     STORY_LIST(
        "", "that everything {he} touched would turn into candy",
        "{his} spoon, {his} shoes and even {his} pillow were candy",
        "{his} blanket melted, and the ants came in long rows",
        "that everything would be as it was", "ate a plain slice of bread and found it delicious",
        "", "that it would be {his} birthday every day",
        "there was a cake on the table every single morning",
        "after {number} weeks, nobody wanted to sing any more, and {his} tummy hurt",
        "for an ordinary Tuesday", "enjoyed the most ordinary Tuesday of {his} life",
        "", "to be as tall as a tree",
        "{he} grew and grew until {he} could look over all the roofs",
        "{he} did not fit into {his} bed, and {friend} was too small to hear {him}",
        "to be small again", "hugged {friend} and did not let go for a long time",
        "", "to be able to fly", "{he} rose into the air like a feather",
        "the wind took {him} higher and higher, and {he} did not know how to get down",
        "to have both feet on the ground", "walked home barefoot, just to feel the grass",
        "", "never to have to sleep again", "{he} was awake all night and played",
        "everybody else was asleep, and the nights were long and lonely",
        "to be tired again", "yawned, and it was the most wonderful yawn in the world",
        "", "that all {his} toys could talk", "every toy began to talk at once",
        "they complained and quarreled, and {hero} could not hear {his} own thoughts",
        "for some peace and quiet", "listened to the silence and smiled",
        "", "to have more toys than anyone else",
        "toys fell out of the sky until the room was full",
        "there was no place left to play or to sit or to sleep",
        "to have only {his} old [teddy|ball|blocks] back",
        "gave every toy that was left to the other children",
        "", "to be invisible", "nobody could see {him} any more",
        "{friend} walked right past {him}, and {elder} called for {him} and cried",
        "to be seen again", "waved at everyone, and everyone waved back",
        "", "that it would never rain again", "the sun shone day after day",
        "the flowers hung their heads, and the brook ran dry",
        "for a good long rain", "danced in the rain until {he} was wet to the skin",
        "", "that everyone would do what {he} said", "\"Jump!\" {he} said, and everybody jumped",
        "nobody had an idea any more, and nobody laughed at {his} jokes unless {he} told them to",
        "that everyone would be free again", "asked {friend}, \"And what do you want to play?\"",
        "", "to understand the animals", "{he} heard what the birds were saying",
        "the flies never stopped talking, and the dog told the same joke all night long",
        "to hear only a bark when a dog barked",
        "patted the dog and was glad that it said nothing but woof",
        "", "that it would be winter all the time", "the snow fell and fell",
        "the birds did not come back, and nobody remembered the smell of strawberries",
        "for the spring to come", "found the first snowdrop and lay down beside it",
        "", "to be grown up at once", "{he} had long legs and big hands",
        "{he} had to work and sweep and pay for things, and nobody tucked {him} in",
        "to be a child again", "climbed onto {elder}'s lap and stayed there")},
    {0}};

static const StoryRule rules[] = {
    {"wish.meet", STORY_LIST(
        "{one_day}, {place.at}, {hero} met {giver}. {giver.how}. \"For that, you have one wish,\" "
        "{hero} heard.",
        "{one_day}, {hero} met {giver}. {giver.how}. \"I will give you one wish,\" said a voice.",
        "It began with {giver}. {giver.how}, and as a reward, {he} had one wish.",
        "Nobody believed it later, but it is true: {one_day}, {hero} met {giver}. {giver.how}. So "
        "{he} had one wish, and only one.",
        "{one_day}, there was a rustling {place.spot}. It was {giver}! {giver.how}. \"One good "
        "turn deserves another,\" said a voice. \"Make a wish!\"",
        "Do you know {giver}? {hero} does. {giver.how}, and for that {he} got one wish.")},
    {"wish.wish", STORY_LIST(
        "{hero} did not have to think for long. {he} wished {magic.wish}.",
        "{hero} {thought}. Then {he} wished {magic.wish}.",
        "There were so many things to wish for! {at_last}, {hero} wished {magic.wish}.",
        "\"Think carefully,\" the voice said. But {hero} had already wished {magic.wish}.",
        "A pony? A castle? A thousand cakes? No. {hero} wished {magic.wish}.",
        "{hero} had known it for a long time. {he} wished {magic.wish}.",
        "\"Take your time,\" said the voice. But {hero} blurted it out: {he} wished "
        "{magic.wish}.")},
    {"wish.true", STORY_LIST(
        "{wish.poof} {magic.true}.", "There was a flash, and {magic.true}.",
        "At first, nothing happened. But then {magic.true}!",
        "{wish.poof} It worked! {magic.true}.",
        "{hero} felt a tickle in {his} nose. {he} sneezed, and {magic.true}.",
        "The air began to glitter, and before {hero} could count to three, {magic.true}.",
        "\"So be it,\" said the voice. And {magic.true}!")},
    {"wish.poof", STORY_LIST("Poof!", "Ping!", "Whoosh!", "Zing!", "Bing, bang, bong!")},
    {"wish.fun", STORY_LIST(
        "{feel_happy} \"This is the best thing in the world!\" {he} {cheered}.",
        "How {hero} laughed! {he} showed it to {friend1} and to everyone else.",
        "For a while, it was wonderful.", "{friend1} could not believe {friend.his} eyes.",
        "\"Lucky you!\" said {friend1}.")},
    {"wish.trouble", STORY_LIST(
        "But soon {magic.trouble}.", "But before long, {magic.trouble}.",
        "But then {hero} noticed something: {magic.trouble}.", "Only, {magic.trouble}.",
        "It did not last. {magic.trouble}.",
        "\"Is it always going to be like this?\" asked {friend1} after a while. For "
        "{magic.trouble}.",
        "Nobody had told {him} about the other side of it: {magic.trouble}.")},
    {"wish.feel", STORY_LIST(
        "{hero} began to feel {sad}.", "\"I did not think of that,\" {hero} {sobbed}.",
        "It was no fun any more. {feel_sad}", "\"I wish I had never wished that,\" said {hero}.",
        "{hero} sat down and sighed.")},
    {"wish.back", STORY_LIST(
        "{he} {ran} back to the place where it had begun. \"Please, I have one more wish!\" {he} "
        "called.",
        "So {hero} went to look for {giver.call} and found the same place again. \"Please take it "
        "back,\" {he} begged.",
        "That evening, {hero} {whispered} into the dark, \"Please, are you still there?\"",
        "There was nothing else to do: {hero} had to find {giver.call} again. \"I made a "
        "mistake,\" {he} called.",
        "{hero} closed {his} eyes and called as loudly as {he} could, \"I do not want it any "
        "more!\"",
        "For three days, {hero} looked for {giver.call}. On the third day, there was a rustling. "
        "\"I have been waiting for you,\" said the voice.")},
    {"wish.undo", STORY_LIST(
        "{giver.call} laughed softly. \"I knew that you would come.\" So {hero} wished "
        "{magic.undo}. {wish.poof} It was done.",
        "\"One wish I gave you, and one more I will give,\" was the answer. {hero} wished "
        "{magic.undo}. {wish.poof}",
        "And {hero} wished {magic.undo}. {giver.call} nodded, and that was that.",
        "\"Are you sure?\" asked the voice. {hero} had never been so sure. {he} wished "
        "{magic.undo}. {wish.poof}",
        "\"Most of them come back,\" said {giver.call} with a smile. \"What do you wish now?\" "
        "{hero} wished {magic.undo}, and so it was.",
        "{hero} did not have to think this time. {he} wished {magic.undo}. There was a flash, and "
        "it was over.")},
    {"wish.end", STORY_LIST(
        "{hero} {magic.after}. {moral}", "Then {hero} {magic.after}. {goodnight}",
        "{hero} {ran} home and {magic.after}. {moral}",
        "And {hero} {magic.after}. \"Is there nothing you wish for?\" asked {friend1} later. "
        "\"No,\" said {hero}. \"I have everything.\"",
        "Nothing had ever felt so good. {hero} {magic.after}. {moral}",
        "The first thing {he} did was this: {hero} {magic.after}. {moral}",
        "On the way home, {hero} sang. At home, {he} {magic.after}. {goodnight}")},
    {"wish.lesson", STORY_LIST(
        "too much of a good thing is too much", "you should think before you wish",
        "what you already have may be the best", "the best wishes are small ones",
        "an ordinary day can be a gift")},
    {0}};

static const StoryPlot plots[] = {
    {"wish", STORY_CAST STORY_FAIR_DAY "giver:giver magic:magic lesson=wish.lesson food:food",
     "{intro}\n\n[{weather_line}|] [{aside}|] {wish.meet} {wish.wish}\n\n{wish.true} {wish.fun} "
        "{wish.trouble} {wish.feel}\n\n{wish.back} {wish.undo}\n\n{wish.end}"},
    {0}};

const StoryContent stories_plots_wish = {.rules = rules, .tables = tables, .plots = plots};
