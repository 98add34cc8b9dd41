#include "data/stories_words.h"

/* clang-format off */

/* Somebody alone finds a friend. */

static const StoryTable tables[] = {
    /* see: how the other one is first seen. other: what nobody else liked or knew. offer: what the
     * hero does. bond: what happens then. */
    {"meet", "see why offer bond lesson",
     STORY_LIST(
        "", "There, all alone [{place.spot}|in a corner], sat a {fkind}",
        "I am new here, and I do not know anybody",
        "{hero} showed {friend.him} [the best hiding places|<!winter>where the sweetest berries "
        "grow|<winter>the best hill for sliding"
        "|every secret path]",
        "[soon|before long], {friend} knew the place as well as {hero} did",
        "everyone is new somewhere at first",
        "",
        "Behind [a tree|a bush|a wall], {hero} saw [two shining eyes|the tip of a nose|a shadow]. "
        "It was a {fkind} who was watching",
        "I did not dare to ask if I could play too",
        "{hero} held out {his} hand and said, \"We need one more!\"",
        "{friend} turned out to be [the fastest runner|the best at hiding|very good at catching]",
        "one kind word can open a door",
        "", "a {fkind} was sitting there with a very cross face",
        "I am not cross. I just miss my old home",
        "{hero} sat down next to {friend.him} and listened",
        "{friend} told {him} about [the house by the sea|a mountain with snow on top|an old swing "
        "under a "
        "plum tree], and it sounded wonderful",
        "a cross face may hide a sad heart",
        "", "A little {fkind} was drawing in the [dust|sand|dirt] with a stick",
        "nobody wants to play what I play",
        "{hero} took another stick and drew [a boat|a castle|a dragon|a house] next to it",
        "{soon}, they had drawn a whole [town|island|zoo|sea full of fish]",
        "it is fun to try what others like",
        "", "Somebody fell with a loud bump. It was a {fkind}, and {friend.his} knee was scratched",
        "it hurts, and I want to go home",
        "{hero} [cleaned the scratch and tied a leaf around it|blew on the knee and told a joke]",
        "{friend} laughed through {friend.his} tears, and the knee was forgotten",
        "a joke can be the best medicine",
        "", "a {fkind} sat there and spoke in a language that {hero} did not know",
        "Bom-ba-la",
        "{hero} pointed at {himself} and said {his} name, then pointed at the [sun|sky|trees]",
        "they [pointed at things and laughed at the funny words|taught each other {number} new "
        "words]",
        "friends do not need many words",
        "", "The others had just told a {tiny} {fkind} to go away",
        "they say that I am too small to play",
        "\"For hide and seek, small is just right!\" {hero} said",
        "nobody could find {friend}, and {friend.he} won {number} times",
        "being small can be a great thing",
        "",
        "a {fkind} was standing there with a {color} [umbrella|hat|scarf], although nobody else "
        "had one",
        "they all laugh at me because I look different",
        "\"I think it looks great,\" {hero} said. \"May I try it on?\"",
        "the next day, {number} others wanted one just like it",
        "it is fine to be different",
        "", "a {fkind} was counting stones, one after the other, and did not look up",
        "I collect stones, but nobody ever asks me about them",
        "{hero} asked about every single stone",
        "together they found one that was shaped like [a heart|a star|an egg|a fish]",
        "asking questions is a good way to make friends",
        "", "a {fkind} was trying to get on the swing, but it was too high",
        "I have tried {number} times, and I always fall off",
        "{hero} held the swing still and then gave it a push",
        "up and down went {friend}, laughing all the time",
        "a little push can make somebody fly")},
    {0}};

static const StoryRule rules[] = {
    {"new.alone", STORY_LIST(
        "But {he} had nobody to play with. {new.wish}",
        "There was only one thing {he} did not have: a friend. {new.wish}",
        "{hero} often played alone, and that was no fun. {new.wish}",
        "{his} brothers and sisters were [much older|too busy|away at school], so {hero} was often "
        "alone.",
        "{hero} had many toys, but nobody to share them with. {new.wish}",
        "{hero} had just moved to a new place, and {he} missed {his} old friends.")},
    {"new.wish", STORY_LIST(
        "\"I wish I had a friend,\" {he} {whispered}.",
        "every evening, {he} wished for a friend.",
        "{he} wanted a friend more than anything.",
        "\"A friend would be better than [a hundred toys|all the cake in the world|a pony],\" {he} "
        "told {elder}.",
        "{elder} said, \"You will find a friend when you least expect it.\"")},
    {"new.go", STORY_LIST(
        "{one_day}, {hero} {walked} {place.to}. [{aside}|]",
        "{weather_line} {hero} was bored, so {he} {walked} {place.to}.",
        "{one_day}, {elder} sent {hero} out to play. {he} {walked} {place.to}. [{aside}|]",
        "{one_day}, {hero} was [sitting|playing alone|looking around] {place.at}. {place.sight}.",
        "{one_day}, {hero} could not sit at home any longer. {he} {walked} {place.to}. [{aside}|]",
        "{one_day}, {hero} followed [a cat|a butterfly|the sound of music|{his} own nose] and came "
        "{place.to}. {place.sight}.",
        "\"Go out and get some air,\" said {elder}. So {hero} {walked} {place.to}. "
        "{weather_line}")},
    {"new.hello", STORY_LIST(
        "\"Hello,\" said {hero}. \"My name is {hero}. [What is yours|Who are you]?\"",
        "{hero}'s heart beat fast, but {he} went closer. \"Hi! I am {hero},\" {he} said.",
        "{hero} [took a deep breath|waved|smiled] and said, \"Hello! Would you like to play with "
        "me?\"",
        "At first, {hero} did not know what to say. Then {he} said, \"[Nice|Lovely] day, is it "
        "not?\"",
        "{hero} wanted to turn around. But then {he} thought of {his} wish and said, \"Hello! I am "
        "{hero}.\"",
        "\"Is this place free?\" {hero} asked and pointed at the ground.",
        "{hero} took out {food.some}. \"Would you like some?\" {he} asked. \"I am {hero}.\"",
        "\"I like your [smile|ears|shoes|scarf|freckles],\" said {hero}, because nothing better "
        "came to mind.")},
    {"new.answer", STORY_LIST(
        "The {fkind} [looked at the ground|blushed|turned away a little|sniffed]. \"I am {friend}. "
        "{meet.why},\" {friend.he} said.",
        "\"{friend},\" said the {fkind} very softly. Then {friend.he} added, \"{meet.why}.\"",
        "It was quiet for a while. \"My name is {friend},\" the {fkind} said at last. "
        "\"{meet.why}.\"",
        "\"I am {friend},\" the {fkind} answered[ with a shy smile|]. \"{meet.why}.\"",
        "The {fkind} looked up [in surprise|with big eyes|for the first time]. \"I am called "
        "{friend},\" {friend.he} said. \"{meet.why}.\"",
        "First there was no answer at all. Then there was a very soft one: \"{friend}. "
        "{meet.why}.\"",
        "\"Nobody has ever asked me that,\" said the {fkind}. \"My name is {friend}. "
        "{meet.why}.\"")},
    {"new.think", STORY_LIST(
        "{hero} knew that feeling very well.", "That made {hero} think.", "{hero} nodded.",
        "{hero} felt sorry for {friend.him}.", "{hero} had an idea.", "")},
    {"new.play", STORY_LIST(
        "After that, they {played} {all_day}.",
        "They {played} until their tummies hurt from laughing.",
        "They {played}, and {hero} had never had so much fun.",
        "Then they shared {food.some} and {played}.", "They {played} and {played}.")},
    {"new.end", STORY_LIST(
        "{hero} had wished for a friend, and now {he} had one. {friends_now}",
        "\"Will you come back tomorrow?\" asked {friend}. \"Of course!\" said {hero}. "
        "{friends_now}",
        "When it was time to go home, they waved until they could not see each other any more. "
        "{moral}",
        "\"I have a friend!\" {hero} told {elder} that evening. {moral}",
        "{friends_now} {moral}",
        "Neither of them was ever lonely again. {moral}",
        "{elder} saw them and smiled. \"I told you so,\" {elder.he} said. {friends_now}")},
    {"new.lesson", STORY_LIST("{meet.lesson}")},
    {0}};

static const StoryPlot plots[] = {
    {"new friend", STORY_CAST STORY_FAIR_DAY "meet:meet lesson=new.lesson food:food",
     "{intro} {new.alone}\n\n{new.go} {meet.see}.\n\n{new.hello} {new.answer}\n\n{new.think} "
     "{meet.offer}. {meet.bond}. {small_talk} {new.play}\n\n{new.end} [{goodnight}|]"},
    {0}};

const StoryContent stories_plots_friend = {.rules = rules, .tables = tables, .plots = plots};
