#include "data/stories_words.h"

/* clang-format off */

/* Somebody cannot sleep; somebody is ill and needs cheering up. */

static const StoryTable tables[] = {
    /* What is tried against being awake, and what happens instead. */
    {"remedy", "try instead",
     STORY_LIST(
        "", "counted sheep",
        "at sheep number [seven|nine|eleven|twelve|twenty|fifty], one of them looked around and "
        "winked, and {hero} had to laugh",
        "", "drank a glass of water",
        "then {he} had to get up again, and that made {him} even more awake",
        "", "hid under the blanket", "it was too hot and too dark in there", "", "hummed a song",
        "the song was so jolly that {his} feet began to dance",
        "", "turned the pillow around", "now the other side was too cold", "",
        "lay down the wrong way around", "now {his} feet were cold and {his} head was lost",
        "", "opened the window", "a moth came in and wanted to talk", "",
        "closed one eye after the other", "one of them always opened again",
        "", "tried to think of nothing", "nothing was a very hard thing to think of", "",
        "looked at a book", "it was so exciting that {he} read until the last page",
        "", "asked the teddy bear for advice", "the teddy bear was already asleep", "",
        "ate a cookie", "the crumbs in the bed tickled")},
    {"lullaby", "how calm",
     STORY_LIST(
        "",
        "told {him} what every animal was doing right now: the hens on their perch, the fish among "
        "the stones, the bees in their hive", "one after the other, they all fell asleep",
        "", "rubbed {his} back, slowly, round and round",
        "the circles got bigger and softer, like rings in a pond",
        "", "sang the old song about the boat and the moon",
        "at the third verse, the boat took {him} along",
        "", "sat down beside {him} and told {him} about the day {he} was born",
        "it was a good story to fall asleep in",
        "",
        "opened the curtain and showed {him} the stars, which were wide awake so that others could "
        "sleep", "it was good to know that somebody kept watch",
        "", "said good night to everything in the room: the chair, the shoes, the lamp, the ball",
        "at the ball, there was no answer from the bed any more",
        "", "put the cat on the bed",
        "the cat purred, and the purring ran through the blanket like warm milk",
        "", "breathed with {him}, slowly, in and out, like the sea",
        "the waves rolled in and out, and then they were far away")},
    /* Why the friend cannot come out, and what cheers up. */
    {"cheer", "ill first gift joy",
     STORY_LIST(
        "", "had the chicken pox and was covered with spots",
        "brought a coloring book, but {friend} was too sad to color",
        "painted red dots on {his} own face, one for every spot",
        "now there were two of them with spots",
        "", "had broken a leg and had to lie still",
        "told a joke, but {friend} only smiled a little",
        "drew a long road on the white bandage, with houses and a tiny car",
        "every day, another house was added",
        "", "had a terrible cold and could not stop sneezing",
        "brought a bunch of flowers, and that made the sneezing worse",
        "counted the sneezes and gave points for the loudest one",
        "at a hundred points, they were both laughing",
        "", "was sad because the old cat had died",
        "said that one could get a new cat, and that was the wrong thing to say",
        "sat down quietly, and together they told stories about the old cat",
        "there were tears, but good ones",
        "", "had lost the big game and did not want to see anybody",
        "knocked, but the door stayed closed",
        "pushed drawings under the door, one after the other, each one sillier than the last",
        "after the tenth, somebody giggled, and the door opened",
        "", "had a sore throat and was not allowed to speak",
        "asked a lot of questions, but there was no answer",
        "invented a language with hands and faces",
        "they talked like that for hours, and it was completely silent",
        "", "had to stay in bed for a whole week",
        "brought a ball, but one cannot play ball in bed",
        "hung a basket on a rope between the two windows, and sent letters to and fro",
        "the basket went up and down all day long",
        "", "was homesick and cried every evening", "said, \"Do not cry,\" but that never helps",
        "asked about home, about the house and the hill and the dog",
        "while telling, {friend} forgot to cry",
        "", "had fallen into the mud in front of everyone",
        "said that nobody had seen it, but everybody had",
        "jumped into the mud as well, with both feet",
        "in the end, the whole school was muddy and happy",
        "", "was angry with the whole world, and nobody knew why", "asked why, and got no answer",
        "took a pillow and shouted into it, as an example",
        "they both shouted until they had to laugh")},
    {0}};

static const StoryRule rules[] = {
    {"dream_ride", STORY_LIST("a cloud", "a white horse", "a big fish", "the back of a goose",
        "a flying bed", "a sleepy bear")},
    {"sleep.start", STORY_LIST(
        "One {time}, {hero} lay in bed and could not sleep. {night_line}",
        "It was bedtime, but {hero} was not tired at all. {night_line}",
        "\"Good night,\" said {elder} and turned off the light. But {hero} was wide awake. "
        "{night_line}", "Everybody was asleep. Only {hero} was not. {night_line}",
        "The lamp was out, the story was told, and still {hero} lay awake. {night_line}",
        "\"Close your eyes and count to a hundred,\" said {elder}. {hero} counted to a hundred. "
        "{he} was still awake. {night_line}",
        "{hero} had been in bed for an hour, and sleep was nowhere to be seen. {night_line}",
        "It was the longest {time} of the year, or so it seemed to {hero}. {night_line}")},
    {"sleep.why", STORY_LIST(
        "{he} had had such an exciting day.",
        "Tomorrow was a big day, and {he} could think of nothing else.",
        "{his} thoughts went around like a merry-go-round.", "{his} legs wanted to run.", "")},
    {"sleep.tries", STORY_LIST(
        "{he} {remedy.try}. But {remedy.instead}. Then {he} {remedy2.try}. But {remedy2.instead}.",
        "First {he} {remedy.try}, but {remedy.instead}. After that, {he} {remedy2.try}, but "
        "{remedy2.instead}.",
        "{he} {remedy.try}. It did not help, for {remedy.instead}. {he} {remedy2.try}. That was no "
        "better: {remedy2.instead}.",
        "What did {he} not try! {he} {remedy.try}, but {remedy.instead}. {he} {remedy2.try}, and "
        "{remedy2.instead}.",
        "Somebody had told {him} what to do. So {he} {remedy.try}. But {remedy.instead}. Somebody "
        "else had told {him} something better. So {he} {remedy2.try}. But {remedy2.instead}.",
        "At nine o'clock, {he} {remedy.try}, but {remedy.instead}. At ten o'clock, {he} "
        "{remedy2.try}, but {remedy2.instead}.")},
    {"sleep.third", STORY_LIST("In the end, {he} {remedy3.try}. But {remedy3.instead}.",
        "And when {he} {remedy3.try}, {remedy3.instead}.", "", "")},
    {"sleep.call", STORY_LIST(
        "\"{elder.call}?\" {hero} called softly. \"I cannot sleep.\"",
        "{hero} got up and walked barefoot to {elder}. \"Sleep does not want to come,\" {he} said.",
        "{elder} heard the noise and put {elder.his} head through the door. \"Still awake?\"",
        "\"{elder.call}, where does sleep come from?\" asked {hero} in the dark.",
        "In the end, {hero} took {his} pillow under {his} arm and knocked at {elder}'s door.",
        "The stairs creaked. It was {elder}, with a candle. \"I thought I heard somebody "
        "thinking,\" {elder.he} said.",
        "\"{elder.call}, are you asleep?\" asked {hero}. \"Not any more,\" said {elder}.",
        "{hero} sighed so loudly that {elder} heard it.")},
    {"sleep.answer", STORY_LIST(
        "{elder} smiled. \"You cannot catch sleep,\" {elder.he} said. \"You have to let it come.\" "
        "Then {elder.he} {lullaby.how}.",
        "{elder} sat down on the edge of the bed and {lullaby.how}.",
        "\"Then we will wait for it together,\" said {elder}, and {elder.he} {lullaby.how}.",
        "{elder} was not cross. {elder.he} {lullaby.how}.",
        "{elder} yawned a big yawn. Then {elder.he} {lullaby.how}.",
        "\"I know that kind of night,\" said {elder}. And {elder.he} {lullaby.how}.",
        "{elder} did not say much. {elder.he} just {lullaby.how}.",
        "\"Sleep is like a cat,\" said {elder}. \"It comes when you do not call it.\" And "
        "{elder.he} {lullaby.how}.")},
    {"sleep.end", STORY_LIST(
        "{lullaby.calm}. And {hero} slept until the sun tickled {his} nose.",
        "{lullaby.calm}. \"Good night, {hero},\" {elder} whispered. But {hero} did not hear it any "
        "more.", "{lullaby.calm}. \"I think it is "
        "coming,\" {hero} murmured. And it was.",
        "{lullaby.calm}. Who was snoring now? It was {elder}. {hero} {smiled}, pulled up the "
        "blanket, and fell asleep as well.",
        "{lullaby.calm}. The last thing {hero} heard was the clock: tick, tock, tick.",
        "{lullaby.calm}. And then there was nothing but a soft little snore.",
        "{lullaby.calm}. In {his} dream, {hero} rode on {dream_ride} through the night, and it was "
        "wide and blue.",
        "{lullaby.calm}. When {elder} tiptoed out, even the [moon|cat|clock|wind] seemed to be "
        "asleep.")},

    {"cheer.news", STORY_LIST(
        "{one_day}, {friend} did not come out to play. {friend.he} {cheer.ill}.",
        "But {one_day}, {friend} was missing. {elder} said that {friend.he} {cheer.ill}.",
        "{one_day}, {hero} waited for {friend} [at the corner|under the big tree|on the wall]. But "
        "{friend.he} did not come, for {friend.he} {cheer.ill}.",
        "One {time}, the window of {friend}'s house stayed dark. {friend} {cheer.ill}.",
        "But then there was bad news: {friend} {cheer.ill}.",
        "{one_day}, {hero} rang the bell at {friend}'s house, and nobody came running. {friend} "
        "{cheer.ill}.")},
    {"cheer.plan", STORY_LIST(
        "\"Then I will cheer {friend.him} up,\" said {hero}.",
        "{hero} was {sad}. Without {friend}, nothing was fun. {he} decided to go and see "
        "{friend.him}.", "\"Poor {friend},\" thought {hero}, and {he} set off at once.",
        "\"Something has to be done,\" said {hero}, and {he} put on {his} shoes.",
        "{hero} could not eat {his} breakfast. {he} had to think of {friend} all the time.",
        "\"I will go there at once,\" {hero} told {elder}.",
        "All alone, {hero} kicked a stone along the road. Then {he} turned around and went to "
        "{friend}.")},
    {"cheer.fails", STORY_LIST("{he} {cheer.first}.", "First {he} {cheer.first}.",
        "{hero} {cheer.first}. It did not help at all.")},
    {"cheer.think", STORY_LIST(
        "{hero} went home and {thought}.",
        "{hero} {thought}. What would help {him} if {he} were in {friend}'s place?",
        "\"Think about what you would like yourself,\" said {elder}.",
        "That was not the right thing. {hero} {thought}.",
        "{hero} walked three times around the house and thought.",
        "\"What makes me happy when I am sad?\" {hero} asked {himself}.",
        "\"Not everything helps everyone,\" said {helper1}, who had seen it all.",
        "{hero} was not one to give up. {he} {thought}.")},
    {"cheer.idea", STORY_LIST("Then {he} had an idea. {he} {cheer.gift}.",
        "The next day, {he} came again. {he} {cheer.gift}.",
        "And then {he} did something that nobody had thought of: {he} {cheer.gift}.")},
    {"cheer.works", STORY_LIST(
        "At first, {friend} did not say a word. But it worked: {cheer.joy}.",
        "For a moment it was quiet. {Cheer.joy}.", "And it worked: {cheer.joy}.")},
    {"cheer.end", STORY_LIST(
        "\"I feel much better already,\" said {friend}. {moral}",
        "A few days later, {friend} was well again. {friends_now}",
        "\"You are the best medicine,\" said {friend}. {moral}",
        "\"Will you come again tomorrow?\" asked {friend}. And of course {hero} did. {moral}",
        "{moral} {friends_now}")},
    {"cheer.lesson", STORY_LIST(
        "a friend is the best medicine", "sometimes it is enough just to be there",
        "laughing together makes everything lighter", "it helps to ask what the other one needs",
        "true friends come when things go wrong")},
    {0}};

static const StoryPlot plots[] = {
    {"sleepless", STORY_CAST
        "time:time<dark> weather:weather remedy:remedy remedy2:remedy "
        "remedy3:remedy lullaby:lullaby",
     "{intro}\n\n{sleep.start} {sleep.why}\n\n{sleep.tries} {sleep.third}\n\n{sleep.call} "
        "{sleep.answer} {sleep.end}"},
    {"cheering up", STORY_CAST STORY_FAIR_DAY "cheer:cheer lesson=cheer.lesson",
     "{intro} {meet_friend}\n\n{cheer.news} {cheer.plan}\n\n{cheer.fails} "
        "{cheer.think}\n\n{cheer.idea} {cheer.works}\n\n{cheer.end}"},
    {0}};

const StoryContent stories_plots_sleep = {.rules = rules, .tables = tables, .plots = plots};
