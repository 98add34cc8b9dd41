#include "data/stories_words.h"

/* clang-format off */

static const StoryRule rules[] = {
    {"girl_name", STORY_LIST(
        "Mia", "Lily", "Anna", "Zoe", "Ella", "Ruby", "Nora", "Ivy", "Clara", "Emma", "Sophie",
        "Maya", "Lucy", "Rosie", "Ellie", "Amy", "Molly", "Daisy", "Hannah", "Leah", "Nina",
        "Tara", "Lola", "Bella", "Cora", "Eva", "Freya", "Gina", "Holly", "Isla", "Julia", "Kate",
        "Layla", "Lena", "Mila", "Naomi", "Olive", "Rita", "Sara", "Stella", "Tilly", "Uma",
        "Vera", "Wendy", "Yara", "Zara", "Alma", "Beth", "Carmen", "Edie", "Greta", "Hazel",
        "Kira", "Lottie", "Maddie", "Nell", "Orla", "Priya", "Rhea", "Suki", "Talia", "Willa",
        "Aisha", "Mei", "Noor", "Amara")},
    {"boy_name", STORY_LIST(
        "Tim", "Ben", "Sam", "Max", "Leo", "Tom", "Jack", "Finn", "Noah", "Eli", "Owen", "Luke",
        "Adam", "Theo", "Henry", "Oscar", "Felix", "Hugo", "Jake", "Kai", "Liam", "Milo", "Nate",
        "Oliver", "Peter", "Ravi", "Simon", "Toby", "Victor", "Zack", "Andy", "Billy", "Caleb",
        "Danny", "Ethan", "George", "Harry", "Ian", "Joe", "Kevin", "Logan", "Ned", "Omar", "Paul",
        "Ralph", "Sean", "Walter", "Yusuf", "Amir", "Arlo", "Bruno", "Cody", "Diego", "Emil",
        "Ivan", "Jamal", "Kofi", "Luca", "Mateo", "Nico", "Otto", "Pablo", "Rory", "Tariq")},
    {"she_animal_name", STORY_LIST(
        "Willow", "Clover", "Honey", "Maple", "Dotty", "Fluff", "Pearl", "Tansy", "Bonnie",
        "Flora", "Ginger", "Juniper", "Lulu", "Mimi", "Nutmeg", "Opal", "Pippa", "Petal",
        "Primrose", "Queenie", "Sorrel", "Tulip", "Velvet", "Betty", "Hattie", "Jinny",
        "Marigold", "Nellie", "Snowdrop", "Trixie", "Twinkle", "Poppy", "Luna", "Dora")},
    {"he_animal_name", STORY_LIST(
        "Benny", "Bramble", "Rusty", "Pip", "Barney", "Nibble", "Pepper", "Bumble", "Dusty",
        "Chester", "Waffle", "Biscuit", "Tumble", "Ziggy", "Bingo", "Fuzz", "Scout", "Sprout",
        "Digger", "Buster", "Oakley", "Chip", "Domino", "Fidget", "Gizmo", "Hubert", "Jasper",
        "Monty", "Ollie", "Patch", "Rollo", "Snuffle", "Thistle", "Wally", "Alfie", "Basil")},
    {"hero_name", STORY_LIST(
        "<child hero.m>{boy_name}", "<child hero.f>{girl_name}",
        "<animal hero.m>{he_animal_name}", "<animal hero.f>{she_animal_name}")},
    {"friend_name", STORY_LIST(
        "<child friend.m>{boy_name}", "<child friend.f>{girl_name}",
        "<animal friend.m>{he_animal_name}", "<animal friend.f>{she_animal_name}")},
    {"helper_name", STORY_LIST(
        "<child helper_sex.m>Mr. {surname}",
        "<child helper_sex.f>[Mrs.|Mrs.|Miss] {surname}",
        "<animal helper_sex.m>[old |]Mr. {animal_surname}",
        "<animal helper_sex.f>[old |]Mrs. {animal_surname}")},
    {"surname", STORY_LIST(
        "Green", "Brown", "Potter", "Lane", "Hill", "Baker", "Marsh", "Finch", "Plum", "Wood",
        "Bell", "Rivera", "Khan", "Lind", "Garcia", "Patel", "Stone", "Fields", "Rossi", "Okoro",
        "Pepper", "Winter", "Silva", "Nowak")},
    {"animal_surname", STORY_LIST(
        "<woods>Badger", "<woods>Hedgehog", "<woods>Mole", "<woods>Beaver", "<woods>Stag",
        "<farm>Goat", "<farm>Gander", "<farm>Donkey", "<farm>Ox", "<jungle>Elephant",
        "<jungle>Stork", "<jungle>Gorilla", "<jungle>Rhino", "Owl", "Tortoise", "Heron", "Toad",
        "Crow", "Otter", "Hare")},

    {"he", STORY_LIST("{hero.he}")},
    {"him", STORY_LIST("{hero.him}")},
    {"his", STORY_LIST("{hero.his}")},
    {"himself", STORY_LIST("{hero.himself}")},
    {"kind", STORY_LIST("<child>{hero.child}", "<animal>{hero_kind}")},
    {"fkind", STORY_LIST("<child>{friend.child}", "<animal>{friend_kind}")},
    /* One word for each of the two, by which neither can be mistaken for the other. */
    /* The friend and the helper, introduced when they first appear. */
    {"friend1", STORY_LIST(
        "<met>{friend}",
        "<!met +met>[{his} friend {friend}|<animal>{friend} the {fkind}|<child>{friend} from next "
        "door|<child>{his} cousin {friend}]")},
    {"helper1", STORY_LIST(
        "[{helper}, {helper.who},|{helper}, who {helper.does},|{helper}]")},
    {"they_two", STORY_LIST("{hero} and {friend}", "the two friends", "they", "both of them")},
    {"home", STORY_LIST(
        "<child>in a {color} house [on a hill|near the sea|by a river|at the edge of town|next to "
        "a bakery|at the end of a quiet street|behind the school|with a crooked chimney]",
        "<child>in a [small|sunny|noisy|busy|quiet] [town|village|street] [by the sea|in the "
        "mountains|near the woods|full of trees]",
        "<child>on the [first|second|third|fourth|top] floor of a tall house",
        "<animal>{hero_kind.home}", "<animal>{hero_kind.home}")},
    {0}};

static const StoryTable tables[] = {
    {"world", "land",
     STORY_LIST("+child", "in town", "+child", "on the street", "+child", "in the neighborhood",
        "+animal +woods", "in the forest", "+animal +farm", "on the farm",
        "+animal +jungle", "in the jungle")},
    {"sex", "he him his himself child",
     STORY_LIST(
        "+m +any_m", "he", "him", "his", "himself", "boy",
        "+f +any_f", "she", "her", "her", "herself", "girl")},

    /* Older ones: how the story calls them, how the hero calls them, and their pronouns. */
    {"elder", "who call he him his",
     STORY_LIST(
        "+any_f", "{his} mom", "Mom", "she", "her", "her",
        "+any_f", "{his} mother", "Mother", "she", "her", "her",
        "+any_f", "{his} mama", "Mama", "she", "her", "her",
        "+any_m", "{his} dad", "Dad", "he", "him", "his",
        "+any_m", "{his} father", "Father", "he", "him", "his",
        "+any_m", "{his} papa", "Papa", "he", "him", "his",
        "+any_f", "{his} grandma", "Grandma", "she", "her", "her",
        "+any_f", "{his} granny", "Granny", "she", "her", "her",
        "+any_m", "{his} grandpa", "Grandpa", "he", "him", "his",
        "+any_f", "{his} aunt", "Auntie", "she", "her", "her",
        "+any_m", "{his} uncle", "Uncle", "he", "him", "his")},

    /* Somebody who is not family; the name is bound apart. */
    {"helper", "who does",
     STORY_LIST(
        "child", "the baker", "baked bread for the whole street",
        "child", "the gardener", "knew the name of every flower",
        "child", "the mail carrier", "brought letters every day",
        "child", "the librarian", "always knew a good book",
        "child", "the shopkeeper", "sold everything from soap to kites",
        "child", "the bus driver", "knew every street in town",
        "child", "the painter", "always had paint on {helper_sex.his} nose",
        "child", "the carpenter", "could build almost anything",
        "child", "the farmer", "came to town with fresh eggs",
        "child", "the music teacher", "played the piano with the windows open",
        "child", "the fisher", "told stories about the sea",
        "child", "the street sweeper", "kept the whole street clean",
        "animal", "the clockmaker", "mended clocks and watches",
        "animal", "the baker", "made the best nut bread for miles",
        "animal", "the teacher", "ran the little school",
        "animal", "the doctor", "had a cure for every cough",
        "animal", "the storyteller", "knew a tale for every evening",
        "animal", "the weaver", "made blankets out of soft grass",
        "animal", "the gardener", "grew the biggest carrots of all",
        "animal", "the map maker", "had drawn every path there was",
        "animal", "the lamplighter", "lit the lanterns every evening")},

    /* What the hero is like, and how one could tell. */
    {"trait", "adjective habit",
     STORY_LIST(
        "", "curious", "asked questions all day long",
        "", "kind", "always shared {his} snacks",
        "+brave", "brave", "was never afraid of the dark",
        "+shy", "shy", "spoke in a very soft voice",
        "", "cheerful", "hummed a tune from morning to night",
        "", "clever", "could solve almost any riddle",
        "", "playful", "turned everything into a game",
        "", "gentle", "never stepped on an ant",
        "", "lively", "could not sit still for long",
        "", "quiet", "liked to listen more than to talk",
        "", "careful", "always looked twice before jumping",
        "", "messy", "could never find both of {his} socks",
        "", "sleepy", "loved a good nap",
        "", "silly", "loved to make funny faces",
        "", "stubborn", "did not like to give up",
        "", "polite", "never forgot to say please",
        "", "helpful", "liked to lend a hand",
        "", "dreamy", "could watch the clouds for hours",
        "", "busy", "was always making something",
        "", "friendly", "waved at everyone {he} met",
        "", "honest", "always told the truth",
        "", "patient", "did not mind waiting",
        "", "impatient", "wanted everything right now",
        "+brave", "bold", "was the first to try new things",
        "", "thoughtful", "remembered every birthday",
        "", "cheeky", "played little tricks on everyone",
        "", "hungry", "was always thinking about lunch",
        "", "neat", "kept all {his} things in tidy rows",
        "", "chatty", "could talk from breakfast to bedtime",
        "+brave", "adventurous", "wanted to see what was behind every hill",
        "", "bouncy", "never walked when {he} could jump",
        "", "funny", "told the best jokes",
        "", "forgetful", "often put {his} shoes on the wrong feet",
        "", "wise", "thought before {he} spoke",
        "", "eager", "got up before everybody else",
        "", "merry", "laughed more than anyone else")},

    {"hobby", "do doing",
     STORY_LIST(
        "", "climb trees", "climbing trees",
        "", "draw pictures", "drawing pictures",
        "", "sing songs", "singing songs",
        "", "dance in the kitchen", "dancing in the kitchen",
        "", "collect pretty stones", "collecting pretty stones",
        "", "watch the birds", "watching the birds",
        "", "build towers", "building towers",
        "", "play hide and seek", "playing hide and seek",
        "", "tell stories", "telling stories",
        "", "count the stars", "counting the stars",
        "!winter", "pick flowers", "picking flowers",
        "", "bake cookies", "baking cookies",
        "", "look for treasure", "looking for treasure",
        "", "jump in puddles", "jumping in puddles",
        "!winter", "chase butterflies", "chasing butterflies",
        "", "ride down the hill", "riding down the hill",
        "", "make paper boats", "making paper boats",
        "", "read by the window", "reading by the window",
        "", "play the drum", "playing the drum",
        "", "help in the garden", "helping in the garden",
        "winter", "make snowballs", "making snowballs",
        "winter", "slide on the ice", "sliding on the ice",
        "autumn", "kick the fallen leaves", "kicking the fallen leaves",
        "summer", "splash in the water", "splashing in the water",
        "summer", "look for crabs", "looking for crabs",
        "spring", "look for bird nests", "looking for bird nests",
        "", "solve puzzles", "solving puzzles",
        "", "play with marbles", "playing with marbles",
        "", "dress up as a pirate", "dressing up as a pirate",
        "", "visit the neighbors", "visiting the neighbors",
        "", "roll down grassy hills", "rolling down grassy hills",
        "", "make up rhymes", "making up rhymes",
        "", "fly kites", "flying kites",
        "", "feed the ducks", "feeding the ducks",
        "", "paint with bright colors", "painting with bright colors",
        "", "play pretend", "playing pretend",
        "", "whistle tunes", "whistling tunes",
        "", "look at maps", "looking at maps")},
    {0}};

const StoryContent stories_people = {.rules = rules, .tables = tables};
