#include "data/stories_words.h"

/* clang-format off */

/* At night, when nobody looks, the toys are awake. The hero is a toy here, the friend too. */

static const StoryTable tables[] = {
    {"toy", "name look moved",
     STORY_LIST(
        "+limbs", "teddy bear", "one button eye", "plodded", "+limbs", "tin soldier",
        "a painted drum", "marched",
        "+limbs", "rag doll", "braids of yellow wool", "tiptoed", "", "wooden duck",
        "four red wheels", "rolled",
        "+limbs", "toy robot", "a light on its chest", "clanked", "+limbs", "stuffed elephant",
        "a long soft trunk", "stomped",
        "+limbs", "rubber dinosaur", "a tail full of dents", "hopped", "+limbs", "sailor puppet",
        "two tangled strings", "swayed",
        "", "wind-up mouse", "a key in its back", "whirred", "+limbs", "wooden horse",
        "a mane of real hair", "galloped",
        "+limbs", "felt rabbit", "ears that were far too long", "hopped", "", "clown on a spring",
        "a round red nose", "bounced",
        "", "paper dragon", "wings that rustled", "fluttered", "+limbs", "woolly lamb",
        "a bell around its neck", "skipped",
        "", "toy fire engine", "a ladder that went up and down", "rolled", "", "glass marble",
        "a swirl of blue inside", "rolled",
        "+limbs", "knitted owl", "eyes as big as buttons", "flapped", "+limbs", "wooden pirate",
        "a hook made of wire", "limped")},
    {"toy_tale", "trouble need plan go done",
     STORY_LIST(
        "", "had fallen behind the cupboard and could not get out", "The gap was dark and narrow",
        "tie all the shoelaces together to make a rope",
        "They let the rope down and pulled, all of them together", "dusty, but safe and sound",
        "", "had been left out in the garden, and it looked like rain",
        "The door was closed, but the cat flap was not",
        "climb through the cat flap and bring back the missing one",
        "They ran through the tall grass, past a very surprised toad",
        "home just before the first drop fell",
        "toy2.limbs", "was going to be thrown away, because one leg was loose",
        "The box was already standing by the door", "mend the leg before morning",
        "They fetched glue, thread and a matchstick and worked all night",
        "as good as new, and in the morning the box was empty",
        "", "was new and sat in the corner without a word", "Nobody knew what to say to a new toy",
        "have a party, with music and lights",
        "They wound up the music box and lit the little lamp", "dancing in the middle of them all",
        "toy2.limbs", "had lost an eye, and without it the world was only half as big",
        "It could be anywhere in the whole house",
        "search every room, from the attic to the cellar",
        "They looked under every rug and found it at last in a slipper",
        "looking at the moon with both eyes",
        "", "was afraid of the vacuum cleaner", "It stood in the corner and looked like a monster",
        "show that it was only sleeping",
        "They crept up, and the bravest one tickled it: nothing happened",
        "riding on top of it and laughing",
        "", "had always dreamed of seeing the sea",
        "The sea was far away, and toys have short legs", "make a sea in the bathtub",
        "They turned on the tap and set the soap dish afloat",
        "the captain of a real ship, for one whole night",
        "", "was sure that nobody loved an old toy", "The new toys were so shiny",
        "look into the old photo book",
        "They turned the heavy pages, one by one, and there was the old toy in every single "
        "picture", "quiet for a long time, and then very happy",
        "", "wanted to say thank you to the child of the house, and toys cannot talk by day",
        "It had to be a secret sign", "tidy up the whole room in one night",
        "They carried books, rolled balls and stacked blocks until the sky turned pink",
        "back on the shelf just in time, and the child could not believe it",
        "", "could not reach the shelf of the others any more, because the ladder was broken",
        "It was far too high to jump", "build a tower out of books",
        "They pushed book onto book, the fat ones first",
        "up on the shelf, between all the friends")},
    {0}};

static const StoryRule rules[] = {
    {"toys.open", STORY_LIST(
        "When the clock struck twelve, the toys in the [nursery|playroom|old toy shop|attic] woke "
        "up. {toys.hero}",
        "Do you know what toys do at night? They stretch, and yawn, and begin to play. {toys.hero}",
        "In the window of an old toy shop lived many toys. By day, they sat still. By night, they "
        "were wide awake. {toys.hero}",
        "On the highest shelf of a {pretty} room, the toys were waiting for the dark. {toys.hero}",
        "As soon as the light went out, something moved in the toy box. {toys.hero}")},
    {"toys.hero", STORY_LIST(
        "One of them was {hero}, a {toy} with {toy.look}.",
        "There was {hero}, a {toy} with {toy.look}, and there was {friend}, a {toy2}.",
        "The [oldest|smallest|bravest|kindest] of them all was {hero}, a {toy} with {toy.look}.",
        "First came {hero}, a {toy} with {toy.look}.",
        "In the middle sat {hero}, a {toy} with {toy.look}. Everyone asked {him} for advice.",
        "{hero} was always the first. {he} was a {toy} with {toy.look}.",
        "And who was that? It was {hero}, a {toy} with {toy.look}.")},
    {"toys.night", STORY_LIST("One night,", "One {weather.adjective} night,",
        "Then, one night in {season},", "One night, when the moon was full,")},
    {"toys.trouble", STORY_LIST(
        "{toys.night} there was great excitement: {friend} the {toy2} {toy_tale.trouble}. "
        "{toy_tale.need}.",
        "{toys.night} {hero} heard somebody crying. It was {friend} the {toy2}, who "
        "{toy_tale.trouble}. {toy_tale.need}.",
        "{toys.night} the others came running. {friend} the {toy2} {toy_tale.trouble}! "
        "{toy_tale.need}.",
        "{toys.night} somebody was missing at the roll call. {friend} the {toy2} "
        "{toy_tale.trouble}. {toy_tale.need}.",
        "{toys.night} nobody wanted to dance. {friend} the {toy2} {toy_tale.trouble}, and all of "
        "them knew it. {toy_tale.need}.",
        "{toys.night} a message went from shelf to shelf: {friend} the {toy2} {toy_tale.trouble}! "
        "{toy_tale.need}.")},
    {"toys.think", STORY_LIST(
        "The toys sat down in a circle and thought.", "\"What can we do?\" everybody asked.",
        "Nobody had an idea. The clock ticked.", "\"We have to do something,\" said {hero}.",
        "\"It is no use,\" sighed a {toy3}.")},
    {"toys.plan", STORY_LIST(
        "Then {hero} {jumped2}. \"I know! We will {toy_tale.plan}!\"",
        "\"We could {toy_tale.plan},\" said {hero} at last. Everybody cheered.",
        "{hero} had a plan: to {toy_tale.plan}. \"But we must be quiet,\" {he} said.",
        "\"There is a way,\" said {hero} slowly. \"We have to {toy_tale.plan}.\"",
        "{hero} whispered something into the ear of the {toy3}, who whispered it on. They would "
        "{toy_tale.plan}!",
        "\"Is that all?\" asked {hero}. \"Then we will simply {toy_tale.plan}.\" It did not sound "
        "simple to the others.")},
    {"jumped2", STORY_LIST("jumped up", "clapped", "raised a hand", "stood up")},
    {"toys.go", STORY_LIST(
        "{hero} {toy.moved} ahead, and the others followed. {toy_tale.go}.",
        "It was dangerous, because somebody might wake up. {toy_tale.go}.",
        "{toy_tale.go}. The {toy3} held the candle.",
        "Off they went. {hero} {toy.moved} in front. {toy_tale.go}.",
        "{toy_tale.go}. The {toy3} counted the minutes.",
        "They had until sunrise. {toy_tale.go}.",
        "Without a sound, they set to work. {toy_tale.go}. {hero} {toy.moved} to and fro and "
        "looked after everyone.")},
    {"toys.scare", STORY_LIST(
        "Once, the floor creaked. They all stood still. But it was only the cat.",
        "Half-way, somebody in the house coughed, and they all lay down like stones.",
        "The clock struck two. There was not much time.",
        "\"Shh!\" said {hero}. \"Did you hear that?\" It was only the wind.", "", "")},
    {"toys.done", STORY_LIST("And soon {friend} was {toy_tale.done}.",
        "And before the sun came up, {friend} was {toy_tale.done}.",
        "And then, {at_last}, {friend} was {toy_tale.done}.")},
    {"toys.end", STORY_LIST(
        "\"Thank you,\" {friend} whispered. \"Toys help each other,\" said {hero}. When the sun "
        "rose, they all sat still in their places again.",
        "In the morning, everything looked as always. Only {hero} was smiling a little more than "
        "the day before.",
        "Then the first bird sang, and every toy hurried back to its place. \"Good day,\" said "
        "{hero}, and fell asleep.",
        "{friends_now} But only at night, of course.",
        "And if you look very closely at your own toys, you may see them wink.")},
    {"toy_name", STORY_LIST(
        "<hero.m>{he_animal_name}", "<hero.f>{she_animal_name}")},
    {"toy_friend_name", STORY_LIST("<friend.m>{he_animal_name}", "<friend.f>{she_animal_name}")},
    {0}};

static const StoryPlot plots[] = {
    {"toys",
        "season:season weather:weather<fair> hero:sex friend:sex hero=toy_name "
        "friend=toy_friend_name toy:toy toy2:toy toy3:toy toy_tale:toy_tale",
     "{toys.open}\n\n{toys.trouble} {toys.think}\n\n{toys.plan} {toys.go} {toys.scare} "
        "{toys.done}\n\n{toys.end}"},
    {0}};

const StoryContent stories_plots_toys = {.rules = rules, .tables = tables, .plots = plots};
