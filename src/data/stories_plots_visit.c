#include "data/stories_words.h"

/* clang-format off */

/* A visit to somebody far away, with a present that has adventures of its own. */

static const StoryTable tables[] = {
    /* Who is visited: host, where the host lives, the way there, what one does there, and the
     * wonder that is kept for the end. */
    {"host", "who where way fun wonder he him his",
     STORY_LIST(
        "+any_f", "{his} grandma", "in a little house by the sea",
        "The train went along the coast, and {hero} pressed {his} nose against the window",
        "they looked for shells and cooked soup in a big blue pot",
        "a bottle with a ship inside", "she", "her", "her",
        "+any_m", "{his} grandpa", "on a farm with {bignumber} sheep",
        "The bus rattled over the bumpy road",
        "they fed the hens and rode on the hay cart", "a lamb that had been born that very night",
        "he", "him", "his",
        "+any_f", "{his} aunt", "at the top of a tall tower in the city",
        "They took a train, then a tram, and then {number} flights of stairs",
        "they looked at the lights and ate noodles with sticks", "a telescope that showed the moon",
        "she", "her", "her",
        "+any_m", "{his} uncle", "in a lighthouse on an island",
        "A small boat carried them over the waves",
        "they climbed all {bignumber} steps and polished the big lamp",
        "the great lamp, lit up by {hero}'s own hand", "he", "him", "his",
        "+any_f", "old Mrs. Finch", "in the house with the crooked roof",
        "The path led through a dark hedge",
        "they drank tea from tiny cups and looked at old pictures",
        "a parrot that could say {hero}'s name", "she", "her", "her",
        "+any_m", "{his} cousin Ferdinand", "high up in the mountains",
        "The path went up and up, past goats with bells",
        "they made cheese and shouted at the hills until the hills answered",
        "a cave with walls that glittered", "he", "him", "his",
        "+any_f", "{his} great-aunt Tilda", "in a wagon with wheels painted {color}",
        "They followed the river for half a day",
        "they cooked over a fire and learned a dance", "a tame fox that slept under the wagon",
        "she", "her", "her",
        "+any_m", "{his} old teacher", "in a room full of clocks",
        "They walked through the snow-white dust of the mill road",
        "they wound up every single clock", "a clock with a bird that came out and sang", "he",
        "him", "his",
        "+any_f", "{his} godmother", "in a glass house full of flowers",
        "The road smelled of rain and earth",
        "they watered {bignumber} plants and named every one", "a flower that opened only at night",
        "she", "her", "her",
        "+any_m", "{his} great-grandpa", "at the end of the last street",
        "They walked slowly, because the street was steep",
        "they played checkers and ate toast with honey", "a box full of letters from long ago",
        "he", "him", "his")},
    /* A present and what goes wrong with it on the way; instead: what it becomes. */
    {"present", "what mishap instead",
     STORY_LIST(
        "", "a cake with cream on top", "{hero} sat down for a rest, right on the cake",
        "The cake was flat now, but it tasted as good as before",
        "!winter", "a bunch of flowers", "a hungry goat came along and ate all the flowers",
        "Only the {color} ribbon was left, and {host.he} tied it around {host.his} neck",
        "", "a basket of eggs", "{hero} stumbled, and crack went the eggs",
        "Only one egg was left, but when they looked closer, it began to move, and out came a "
        "chick",
        "", "a picture {he} had painted", "the rain fell on it, and all the colors ran together",
        "Now the picture looked like a sunset, and it was more beautiful than before",
        "", "a jar of honey",
        "{hero} tasted it once, and again, and again, until the jar was empty",
        "But the empty jar was just right to catch the light of the evening sun",
        "", "a {color} balloon",
        "the wind pulled the string out of {his} hand, and the balloon flew away",
        "The balloon was already there, caught on the chimney, when {he} arrived",
        "", "a poem {he} had written", "the wind blew away the paper with the poem on it",
        "So {he} made up a new poem right there, and it was much funnier",
        "", "a loaf of warm bread",
        "the birds followed {him} and picked at the bread until only half was left",
        "But the birds stayed, and they sang at the window all day long",
        "", "a long scarf {he} had made",
        "the end of it got caught on a fence, and the whole scarf came undone",
        "So they sat down together and made two short ones out of the wool")},
    {0}};

static const StoryRule rules[] = {
    {"visit.lives", STORY_LIST("{host.he} lived {host.where}.",
        "{host.he} had a home {host.where}.")},
    {"visit.plan", STORY_LIST(
        "{one_day}, {hero} was going to visit {host}, who lived {host.where}.",
        "{host} lived {host.where}. {one_day}, {hero} was allowed to go there [for the first "
        "time|all alone|for a whole weekend].",
        "{one_day}, a letter came. \"Come and see me,\" it said. It was from {host}, who lived "
        "{host.where}.",
        "Once a year, {hero} went to see {host}, who lived {host.where}.",
        "{one_day}, {elder} packed a bag. \"We are going to see somebody,\" {elder.he} said. It "
        "was {host}. {visit.lives}",
        "{hero} had not seen {host} for a whole year. {one_day}, it was time at last. "
        "{visit.lives}",
        "On {hero}'s calendar, there was a red circle around one day: the visit to {host}. "
        "{visit.lives}")},
    {"visit.gift", STORY_LIST(
        "{hero} was {excited}. {he} took {present} along as a present.",
        "{hero} wanted to bring {host.him} something nice, so {he} took {present}.",
        "As a present, {he} took {present}.",
        "\"I will bring {present},\" said {hero}, and {elder} thought that was a fine idea.",
        "{he} packed {his} bag and did not forget the present: {present}.")},
    {"visit.way", STORY_LIST(
        "{host.way}. [{weather_line}|]", "{weather_line} {host.way}.",
        "The way was long. {host.way}.",
        "{host.way}. {hero} looked at everything with big eyes.",
        "It was a real journey. {host.way}.",
        "\"Are we there yet?\" asked {hero} [three|five|ten|twenty] times. {host.way}.",
        "They set off when it was still dark. {host.way}.")},
    {"visit.mishap", STORY_LIST(
        "Then something happened: {present.mishap}.", "Half-way, {present.mishap}.",
        "But oh dear, {present.mishap}.", "Everything went well until {present.mishap}.",
        "Who could have known? On the very last part of the way, {present.mishap}.",
        "They were almost there when {present.mishap}.",
        "{hero} was so careful! And still {present.mishap}.")},
    {"visit.sad", STORY_LIST(
        "\"{oh_no}!\" {hero} {sobbed}. \"Now I have no present.\"",
        "{hero} felt {sad}. What would {host.he} say?",
        "{feel_sad}", "\"My [nice|lovely|beautiful] present!\" cried {hero}.",
        "\"Everything is ruined,\" {hero} {sobbed}.",
        "{hero} wanted to turn around and go home.",
        "{hero} did not say a word for the rest of the way.",
        "\"It was such a good present,\" said {hero} in a small voice.")},
    {"visit.arrive", STORY_LIST(
        "But {host} stood at the door and opened {hero}'s bag with a smile. \"You are the best "
        "present of all,\" {host.he} said. {present.instead}.",
        "When {host} heard the story, {host.he} laughed until {host.he} had to sit down. "
        "{present.instead}.",
        "\"I wanted to bring you something,\" said {hero} in a small voice. \"You brought "
        "yourself,\" said {host}. {present.instead}.",
        "{host} was not cross at all. {present.instead}.",
        "At the door, {hero} hid behind {elder}. But {host} knew at once. \"Come here, my dear,\" "
        "{host.he} said. {Present.instead}.",
        "\"Tell me,\" said {host}. And {hero} told {host.him}. It was a good story, really. "
        "{present.instead}.",
        "{host} listened, and {host.his} eyes grew smaller and smaller, until {host.he} could not "
        "hold back a laugh. {present.instead}.")},
    {"visit.day", STORY_LIST(
        "Then {host.fun}.", "After that, {host.fun}. The time flew by.",
        "All day long, {host.fun}.",
        "First they had {food.some}. Then {host.fun}.",
        "And then the real fun began: {host.fun}.",
        "{host} had thought of everything. In the afternoon, {host.fun}.",
        "Nobody said, \"Be careful,\" and nobody said, \"Wash your hands.\" Instead, {host.fun}.")},
    {"visit.wonder", STORY_LIST(
        "In the evening, there was a surprise: {host.wonder}.",
        "\"Now I will show you something,\" {host} said at last. It was {host.wonder}.",
        "And the best thing came at the end: {host.wonder}.",
        "Before bedtime, {host} showed {him} {host.wonder}.",
        "When it got dark, {host} took {him} by the hand. \"I have never shown this to anybody,\" "
        "{host.he} said. It was {host.wonder}.",
        "But that was not all. {hero} was allowed to see something that few had ever seen: "
        "{host.wonder}.",
        "{hero} could not go to sleep, because {he} had to think of {host.wonder}, which {host} "
        "had shown {him}.")},
    {"visit.end", STORY_LIST(
        "\"I will come again soon,\" {hero} promised.",
        "On the way home, {hero} told {elder} everything.",
        "{hero} did not want to go home at all.",
        "When {hero} left, they both waved for a long time.",
        "{hero} wished that the day would never end.")},
    {"visit.lesson", STORY_LIST(
        "the best present is to come yourself", "things may go wrong and still end well",
        "a present need not be perfect", "a good laugh is a present too",
        "it is the thought that counts")},
    {0}};

static const StoryPlot plots[] = {
    {"visit", STORY_CAST STORY_FAIR_DAY "host:host present:present lesson=visit.lesson food:food",
     "{intro}\n\n{visit.plan} {visit.gift}\n\n{visit.way} {aside_way} {visit.mishap} "
        "{visit.sad}\n\n{visit.arrive} {visit.day}\n\n{visit.wonder} {visit.end} "
        "[{moral}|{goodnight}]"},
    {0}};

const StoryContent stories_plots_visit = {.rules = rules, .tables = tables, .plots = plots};
