#include "data/stories_words.h"

/* clang-format off */

/* What many plots share: how a story opens, what happens by the way, how it closes. */
static const StoryRule rules[] = {
    {"intro", STORY_LIST("{intro_start} [{intro_detail}|]")},
    {"intro_start", STORY_LIST(
        "once upon a time, there was a {little} {kind} [named|called] {hero}. {intro_more}",
        "once upon a time, a {trait} {kind} [named|called] {hero} lived {home}. {intro_hobby}",
        "once there was a {trait} [little|young] {kind} whose name was {hero}. {intro_hobby}",
        "{hero} was a {trait} {kind} who {trait.habit}. {intro_hobby}",
        "{hero} was a {little} {kind} who lived {home}. {intro_more}",
        "there once was a {little} {kind} [named|called] {hero} who loved {hobby.doing}. "
        "{intro_trait}",
        "this is a story about {hero}, a {trait} [little|young] {kind}. {intro_hobby}",
        "not so long ago, a {little} {kind} named {hero} lived {home}. {intro_more}",
        "everyone {world.land} knew {hero}, the {trait} [little|young] {kind}. {intro_hobby}",
        "have you heard of {hero}? {hero} was a {trait} {kind} who {trait.habit}.",
        "far away, {home}, lived a {little} {kind} [named|called] {hero}. {intro_more}",
        "<animal>{hero} the {kind} was {trait}. {he} {trait.habit}.",
        "a {kind} named {hero} lived {home} with {his} [family|{elder_plain}|{number} {siblings}]. "
        "{intro_more}",
        "<animal +looked>once upon a time, {world.land}, there was a {little} {kind} with "
        "{hero_kind.look}. {his} name was {hero}. {intro_more}",
        "<animal>{hero} was the [smallest|youngest|busiest|fastest|quietest] {kind} {world.land}. "
        "{intro_more}",
        "<animal>of all the animals {world.land}, nobody was as {trait} as {hero} the {kind}. "
        "{intro_hobby}",
        "<child>{hero} was [three|four|five|six|seven] years old and very {trait}. {intro_hobby}",
        "<child>in a house with a {color} door lived a {kind} named {hero}. {intro_more}",
        "Listen, and I will tell you about {hero}, a {trait} {kind}. {intro_hobby}",
        "On the day this story begins, {hero} was [awake before everybody else|in a very good "
        "mood|looking for {his} other sock|sitting by the window]. {he} was a {trait} {kind}.",
        "If you had gone past {a_home} in those days, you might have seen a {little} {kind}. That "
        "was {hero}. {intro_more}",
        "Somewhere {world.land} there lived a {kind}, and {his} name was {hero}. {intro_more}",
        "{hero} and {his} family lived {home}. {intro_more}",
        "There was never a {kind} as {trait} as {hero}. {intro_hobby}",
        "\"Good morning!\" That was what {hero}, a {trait} {kind}, said to everyone, even to [the "
        "trees|the snails|the clouds|{his} shoes]. {intro_hobby}",
        "Of all the {kinds} in the world, none was as {trait} as {hero}. {intro_hobby}",
        "A {trait} {kind} named {hero} woke up one day and [stretched|yawned|looked out of the "
        "window|jumped out of bed]. {intro_hobby}",
        "My grandmother told me this story. It is about a {little} {kind} named {hero}. "
        "{intro_more}",
        "{hero} had a [big|small|funny|happy] family, [a noisy|a quiet|an old|a crooked] house and "
        "a great many ideas. {intro_more}",
        "There are many {kinds}, but there is only one {hero}. {he} lived {home}. {intro_trait}",
        "In the same year in which [it snowed in May|the old bridge fell down|the circus came to "
        "town|the river froze], a {kind} named {hero} lived {home}. {intro_more}",
        "\"{hero}!\" somebody was always calling. \"Where is {hero}?\" For {hero} was a {trait} "
        "{kind}, and {he} {trait.habit}.")},
    {"intro_more", STORY_LIST(
        "{he} was {very} {trait}[ and {trait.habit}|].", "{he} {trait.habit}.",
        "{he} loved {hobby.doing}.", "more than anything, {hero} loved {hobby.doing}.",
        "{hero} was {trait}, and {he} loved {hobby.doing}.",
        "everyone said that there was no {kind} as {trait} as {hero}.",
        "every day, {he} went out to {hobby}.",
        "Some said that {he} was too {trait}. But {his} family loved {him} just as {he} was.",
        "{he} had two favorite things: {hobby.doing} and {hobby2.doing}.",
        "All day long, one could see {him} {hobby.doing}.",
        "Nobody was better at {hobby.doing}.",
        "Whenever {he} had time, {he} was {hobby.doing}.",
        "{trait_quote}")},
    {"trait_quote", STORY_LIST(
        "\"You are so {trait},\" people always told {him}.",
        "\"What a {trait} {kind}!\" the neighbors said.",
        "\"Our {hero} is {trait},\" {elder} always said.",
        "\"I am {trait}, and that is that,\" {he} liked to say.")},
    {"a_home", STORY_LIST(
        "<child>the old bakery", "<child>the house with the {color} door", "<child>the school",
        "<animal>the hollow tree",
        "<animal>the big stone", "<animal>the place where the paths meet")},
    {"kinds", STORY_LIST("<child hero.m>boys", "<child hero.f>girls", "<animal>little animals")},
    {"intro_trait", STORY_LIST(
        "{he} was {very} {trait}[ and {trait.habit}|].", "{he} {trait.habit}.",
        "everyone said that there was no {kind} as {trait} as {hero}.",
        "{hero} was {trait} as well. {he} {trait.habit}.")},
    {"intro_hobby", STORY_LIST(
        "{he} loved {hobby.doing}.", "more than anything, {he} loved {hobby.doing}.",
        "{his} favorite thing was {hobby.doing}.", "{he} liked {hobby.doing} best of all.",
        "on most days, {he} was busy {hobby.doing}.", "nothing was more fun than {hobby.doing}.",
        "{he} could spend a whole day {hobby.doing}.",
        "{he} also loved to {hobby}.", "",
        "When {he} was not busy {hobby.doing}, {he} was {hobby2.doing}.",
        "In {his} free time, {he} loved {hobby.doing} and {hobby2.doing}.",
        "\"Today is a good day for {hobby.doing},\" {he} often said.",
        "What did {he} like best? {Hobby.doing}, of course.",
        "Nobody could keep {him} from {hobby.doing}.")},
    {"elder_plain", STORY_LIST(
        "mother", "father", "parents", "grandparents", "mom and dad", "aunt and uncle")},
    {"siblings", STORY_LIST("brothers", "sisters", "cousins", "brothers and sisters")},
    {"meet_friend", STORY_LIST(
        "<+met>{hero}'s best friend was {friend}[<animal> the {fkind}|, a {little} {fkind}|].",
        "<+met>{his} best friend was a {fkind} named {friend}.",
        "<+met>{hero} had a good friend [called|named] {friend}.",
        "<+met>{friend} was {hero}'s best friend, and they did everything together.")},

    {"snack", STORY_LIST(
        "{they_two} shared {food.some}.", "they sat down and ate {food.some}.",
        "{hero} took out {food.some} and gave half of it to {friend}.")},

    /* Thanks between the hero and somebody else, told from outside. */
    {"you_are_welcome", STORY_LIST(
        "you are welcome", "it was nothing", "any time", "it was a pleasure",
        "I was glad to help", "my pleasure", "do not mention it")},

    /* The moral needs a bound text {lesson}: a clause such as "it is good to share". */
    {"moral", STORY_LIST(
        "{moral_self}", "{moral_self}", "{moral_self}", "{moral_self}", "{moral_self}",
        "\"You see, {lesson},\" said {elder}.",
        "\"Remember, {lesson},\" {elder} said with a smile.",
        "{elder} smiled and said, \"{lesson}.\"",
        "\"I will tell you something,\" said {elder}. \"{lesson}.\"",
        "{elder} often said, \"{lesson}.\" Now {hero} knew what that meant.",
        "\"{lesson}, {dear},\" said {elder}.")},
    /* The same where {elder} has just spoken. */
    {"moral_self", STORY_LIST(
        "{hero} had learned that {lesson}.", "From that day on, {hero} knew that {lesson}.",
        "{hero} never forgot that {lesson}.", "And so {hero} found out that {lesson}.",
        "\"Now I know that {lesson},\" said {hero}.", "That was how {hero} learned that {lesson}.",
        "\"{lesson},\" thought {hero}.", "\"I think that {lesson},\" {hero} said.",
        "Since that {time}, {hero} has known that {lesson}.", "It is true: {lesson}.",
        "In big letters, {hero} wrote on a piece of paper: \"{lesson}.\"",
        "If you ask {hero}, {he} will tell you that {lesson}.",
        "Sometimes you have to find out for yourself that {lesson}.")},
    {"supper", STORY_LIST(
        "at home, {elder} [had made|was waiting with|put out] {food.some}.",
        "for supper there was {food.some}.",
        "then they all sat down and had {food.some}.",
        "{elder} gave {him} {food.some}, and it tasted better than ever.",
        "they [ended|finished] the {time} with {food.some}.", "", "")},
    {"friends_now", STORY_LIST(
        "from then on, {hero} and {friend} were the best of friends.",
        "after that, {hero} and {friend} played together every day.",
        "{hero} and {friend} stayed friends for ever.",
        "and {hero} and {friend} were never bored again.",
        "from that day on, you never saw {hero} without {friend}.",
        "{they_two} promised to meet again the next day.")},
    {0}};

const StoryContent stories_beats = {.rules = rules};
