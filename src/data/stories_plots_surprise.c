#include "data/stories_words.h"

/* clang-format off */

/* A secret is kept, almost given away, and becomes a feast. */

static const StoryTable tables[] = {
    /* For whom is decided by the facts for_friend and for_elder. make: how it is prepared. slip:
     * what nearly gives it away. excuse: what the hero says then. */
    {"secret", "thing make slip excuse reveal",
     STORY_LIST(
        "", "a birthday party", "They blew up {bignumber} balloons and hung up paper stars",
        "a balloon went bang just when {guest} walked by",
        "That was only my tummy",
        "all the lights went on, and everybody jumped out from behind the curtains",
        "", "a giant cake with {number} layers",
        "They stirred and baked, and the kitchen was white with flour",
        "{guest} sniffed and said, \"It smells "
        "of cake here.\"", "That is the new soap", "{hero} carried in the cake, as tall as a tower",
        "", "a song with drums and whistles", "They practiced in the shed with the door shut",
        "{guest} heard the drums and came closer",
        "That is the thunder", "the door of the shed opened, and the band began to play",
        "", "a puppet show", "They made puppets out of old socks and painted a stage",
        "one of the puppets fell out of {hero}'s bag, right in front of {guest}",
        "That is just my sock. It is cold today",
        "the curtain went up, and a sock with button eyes said hello",
        "", "a big picture with all their friends in it", "Everybody painted a little piece of it",
        "{guest} saw the paint on {hero}'s nose",
        "That is berry juice",
        "they pulled the sheet away, and there was the picture, as big as a door",
        "", "a lantern parade", "They made lanterns out of paper, one for everyone",
        "{guest} found a box full of candles",
        "They are for the cellar",
        "the street was full of little lights, like stars that had come down",
        "", "a tree house", "They hammered and sawed whenever {guest} was away",
        "{guest} asked about the sawdust in {hero}'s hair",
        "That is only dandruff",
        "they took the scarf from {guest_his} eyes, and {guest_he} looked up into the tree",
        "", "a quilt made of old shirts",
        "Everybody gave a piece of cloth, and they sewed it all together",
        "{guest} wondered where the old {color} shirt had gone",
        "Maybe a moth ate it", "they spread out the quilt, and every piece of it told a story",
        "!winter", "a garden full of flowers",
        "They planted {bignumber} flowers before the sun was up",
        "{guest} saw the mud on {hero}'s shoes",
        "I fell into a puddle", "they opened the window, and the whole garden was in bloom",
        "winter", "a palace made of snow",
        "They rolled and carved and poured water over it to make it hard",
        "{guest} asked why {hero}'s mittens were always wet",
        "I washed them",
        "they led {guest_him} around the corner, and there stood the palace, shining in the "
        "moonlight")},
    {0}};

static const StoryRule rules[] = {
    {"a_day", STORY_LIST("a {weather.adjective} one", "a bright one", "the longest day ever",
        "a Sunday", "a good one")},
    {"guest_pick", STORY_LIST("<+for_friend>x", "<+for_elder>x")},
    {"guest", STORY_LIST("<for_friend>{friend}", "<for_elder>{elder}")},
    {"guest_call", STORY_LIST("<for_friend>{friend}", "<for_elder>{elder.call}")},
    {"guest_he", STORY_LIST("<for_friend>{friend.he}", "<for_elder>{elder.he}")},
    {"guest_him", STORY_LIST("<for_friend>{friend.him}", "<for_elder>{elder.him}")},
    {"guest_his", STORY_LIST("<for_friend>{friend.his}", "<for_elder>{elder.his}")},
    {"surprise.why", STORY_LIST(
        "{guest}'s birthday was coming soon.",
        "It was almost {guest}'s birthday, and {hero} had not found a present yet.",
        "{guest} had been {sad} for days, because [the rain did not stop|an old friend had moved "
        "away|the winter had been so long].",
        "{guest} had been away for {number} weeks and was coming home on Sunday.",
        "{guest} was always doing things for others. \"Now it is {guest_his} turn,\" {hero} "
        "thought.")},
    {"surprise.plan", STORY_LIST(
        "{hero} {thought}. Then {he} had it: {secret}! \"But it has to be a secret,\" {he} told "
        "the others.",
        "\"I know!\" {hero} whispered to {surprise.others}. \"Let us make {secret}. But do not "
        "tell {guest_call}!\"",
        "\"What about {secret}?\" {hero} asked {surprise.others}. Everybody loved the idea. "
        "\"Shh!\" {he} said. \"Not a word to {guest_call}!\"",
        "{hero} wanted to surprise {guest_him} with {secret}. {he} told nobody but "
        "{surprise.others}.",
        "In the night, {hero} had an idea, and it was such a good one that {he} had to sit up in "
        "bed: {secret}! In the morning, {he} told {surprise.others}.",
        "\"{secret}!\" said {hero} to {surprise.others}. \"That is what {guest_he} would like "
        "best.\" They all swore to keep quiet.",
        "{hero} called {surprise.others} together in the shed. \"{guest} must not know,\" {he} "
        "whispered. Then {he} told them about the plan: {secret}.")},
    {"surprise.others", STORY_LIST("{his} friends", "the neighbors", "{helper}",
        "{his} brothers and sisters", "{his} cousins")},
    {"surprise.make", STORY_LIST(
        "{secret.make}. [It was a lot of work|It took {number} days|Everybody helped].",
        "For days, they were busy. {secret.make}.",
        "They started at once. {secret.make}.", "{secret.make}. {hero} giggled all the time.",
        "There was a lot to do. {secret.make}.",
        "Whenever {guest} was not looking, they went to work. {secret.make}.",
        "It was not as easy as they had thought. {secret.make}. {hero} forgot to eat, and that had "
        "never happened before.")},
    {"surprise.hard", STORY_LIST(
        "It was hard to keep the secret. It tickled {hero} on the tongue.",
        "{hero} almost told {guest_him} three times.",
        "Whenever {guest} came in, everyone stopped talking.",
        "\"Why are you all whispering?\" asked {guest}. \"No reason,\" said {hero}.",
        "A secret is a heavy thing to carry, but {hero} carried it.")},
    {"surprise.slip", STORY_LIST(
        "One day, {secret.slip}. {surprise.excuse}",
        "Then it almost went wrong: {secret.slip}. {surprise.excuse}",
        "And on the last day, {secret.slip}. {hero} turned red. {surprise.excuse}",
        "Once, they were nearly caught: {secret.slip}. {surprise.excuse}",
        "Of course, something had to go wrong: {secret.slip}. {surprise.excuse}",
        "Two days before the end, {secret.slip}. Everybody held their breath. {surprise.excuse}")},
    {"surprise.excuse", STORY_LIST(
        "\"{secret.excuse},\" {hero} said quickly.", "\"Oh,\" said {hero}. \"{secret.excuse}.\"",
        "\"{secret.excuse}!\" cried {hero}. Phew, that was close!",
        "\"Hm? What? {secret.excuse},\" said {hero} and looked at the ceiling.",
        "{hero} had to think fast. \"{secret.excuse},\" {he} said.",
        "\"{secret.excuse},\" said {hero} and turned as red as a radish.",
        "\"Er,\" said {hero}. \"{secret.excuse}.\" It was not a good answer, but it had to do.")},
    {"surprise.wrong", STORY_LIST(
        "<for_friend>{friend} became very quiet. \"Nobody wants to be with me any more,\" "
        "{friend.he} thought.",
        "{guest} said nothing and went away with a long face.", "", "",
        "{guest} looked puzzled, but asked no more questions.")},
    {"surprise.day", STORY_LIST(
        "{at_last}, the day came. {hero} took {guest} by the hand. And then {secret.reveal}.",
        "On the big day, {guest} came through the door. {Secret.reveal}.",
        "Then the evening came. \"Close your eyes,\" said {hero}. \"Now open them!\" At that "
        "moment, {secret.reveal}.",
        "On Sunday, everything was ready. When {guest} came, {secret.reveal}.",
        "The day came, and it was {a_day}. {guest} opened the door, and {secret.reveal}.",
        "\"Will you come with me for a moment?\" asked {hero}. {guest} came along, and "
        "{secret.reveal}.",
        "{guest} thought that it was a day like any other. But then {secret.reveal}.")},
    {"surprise.joy", STORY_LIST(
        "\"Surprise!\" everyone shouted. {guest} was {surprised}.",
        "{guest} laughed and cried at the same time.",
        "\"Is all this for me?\" asked {guest}.",
        "{guest} could not say a word for a whole minute.", "\"Surprise!\" {cheered} {hero}.")},
    {"surprise.end", STORY_LIST(
        "\"So that is why you were all so strange!\" {guest_he} said. {moral}",
        "There was {food.name} for everyone, and they danced until late. {goodnight}",
        "\"This is the best day of my life,\" said {guest}. {goodnight}",
        "{guest} {hugged2} {hero} and did not let go for a long time. {moral}",
        "\"I wanted to make you happy,\" said {hero}. And {he} had. {moral}")},
    {"surprise.lesson", STORY_LIST(
        "it is wonderful to make somebody happy", "giving is as much fun as getting",
        "some secrets are good ones",
        "a surprise needs many hands and closed lips", "the best presents are made, not bought")},
    {0}};

static const StoryPlot plots[] = {
    {"surprise", STORY_CAST STORY_FAIR_DAY
        "guest_kind=guest_pick secret:secret lesson=surprise.lesson food:food",
     "{intro} [<for_friend>{meet_friend}]\n\n{surprise.why} {surprise.plan}\n\n{surprise.make} "
        "{surprise.hard} {surprise.slip} {surprise.wrong}\n\n"
     "{surprise.day} {surprise.joy}\n\n{surprise.end}"},
    {0}};

const StoryContent stories_plots_surprise = {.rules = rules, .tables = tables, .plots = plots};
