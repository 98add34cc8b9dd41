#include "data/stories_words.h"

/* clang-format off */

/* A mishap, a fib, a bad night, and the truth; and something found that belongs to somebody. */

static const StoryTable tables[] = {
    /* rule: what was forbidden. deed: what happened, past tense behind the hero. hide: how it was
     * hidden. fib: what the hero said. mend: how it was made good. */
    {"mischief", "rule deed hide fib mend",
     STORY_LIST(
        "", "not to play ball in the house",
        "threw the ball just once, and it hit {elder.his} best vase. Crash",
        "{he} pushed the pieces under the rug",
        "Maybe the cat did it",
        "glued the vase together, and it became the home of a [spider|pen collection|dried flower]",
        "", "not to touch the cake before supper",
        "only wanted to taste it, but then half of the cake was gone",
        "{he} turned the plate around so that nobody could see it",
        "Maybe there are mice in the house",
        "baked a new cake together, and {hero} washed all the dishes",
        "", "not to paint on the walls", "painted just one small flower, and then a whole meadow",
        "{he} moved the [chair|cupboard|curtain] in front of it",
        "I did not see any flowers", "washed the wall, but they left one flower in the corner",
        "", "to close the gate behind {him}", "forgot the gate, and all the hens ran out",
        "{he} shut the gate and looked the other way",
        "The wind must have done it", "ran around until the last hen was back in the yard",
        "", "to feed the fish while {elder} was away",
        "forgot the fish, and then gave them the whole box at once",
        "{he} put a cloth over the bowl",
        "They are just sleeping",
        "changed the water {number} times, until the fish were lively again",
        "", "not to play with {elder.his} [glasses|watch|pipe|paints]",
        "tried them on, and they fell down the stairs. Crack",
        "{he} laid them back as if nothing had happened",
        "Somebody must have sat on them",
        "carried them to {helper}, who mended them, and {hero} paid with {his} own pennies",
        "!winter", "not to pick the first rose", "wanted only to smell it, but then the stem broke",
        "{he} stuck the rose back into the ground",
        "It just looks a bit tired", "put the rose into a glass of water, and planted a new bush",
        "", "not to borrow {friend}'s [book|flute|drum] without asking",
        "took it anyway, and left it out in the rain", "{he} hid it under the bed",
        "I have not seen it", "dried it as well as they could, and {hero} gave {friend} {his} own",
        "", "to water the beans every day",
        "played all week and forgot the beans, and now they were dry and yellow",
        "{he} painted the leaves green",
        "They look very healthy to me",
        "planted new beans, and {hero} watered them every morning and every night",
        "", "not to open the letter", "opened it just a little, and it tore right down the middle",
        "{he} put it under a big stone in the yard",
        "The mail did not come today",
        "taped the letter together and read it aloud, and it was an invitation to a feast")},
    /* Something found that somebody else has lost. */
    {"lost_thing", "what plan owner thank",
     STORY_LIST(
        "+any_m", "a purse full of coins", "buy a mountain of candy",
        "an old man who was counting the stones on the path with his eyes",
        "gave {him} one of the coins and a long handshake",
        "+any_f", "a golden ring", "wear it and play king", "a bride who was crying into her veil",
        "invited {him} to the wedding and danced with {him}",
        "", "a small {color} mitten", "use it as a hat for {his} teddy",
        "a baby with one cold hand", "laughed for the first time that day",
        "", "a silver flute", "play it every day",
        "a musician who sat silently in the middle of the band", "played a song just for {him}",
        "", "a fat brown book", "keep it under {his} pillow",
        "a girl who had been just about to read the last page", "read {him} the ending",
        "", "a toy ship with real sails", "sail it around the world",
        "a small boy who stood by the water and looked far out",
        "let {him} be the captain for a whole day",
        "+any_f", "a key with a {color} ribbon", "open a treasure chest with it",
        "a lady who sat in front of her own door and could not get in",
        "showed {him} around the house, which was full of parrots",
        "", "a puppy without a collar", "keep it for ever",
        "a girl who was calling a name, again and again",
        "said that {he} could visit the puppy every day",
        "", "a box of new crayons", "draw the biggest picture in the world",
        "a painter who had an empty wall and nothing to paint with", "let {him} paint the sun",
        "", "a hat with a long feather", "wear it to school",
        "an actor who needed it that very evening", "gave {him} a seat in the first row")},
    {0}};

static const StoryRule rules[] = {
    {"truth.rule", STORY_LIST(
        "{elder} had told {him} {mischief.rule}.", "{hero} had promised {elder} {mischief.rule}.",
        "Before {elder.he} left, {elder} reminded {hero} {mischief.rule}.",
        "\"Remember what I told you,\" said {elder}. {elder.he} had asked {hero} "
        "{mischief.rule}.",
        "There were not many rules in the house. But {hero} was [asked|told] {mischief.rule}.",
        "\"I trust you,\" {elder} had said. {hero} had promised {mischief.rule}.",
        "Every morning, {elder} reminded {him} {mischief.rule}. \"Yes, yes,\" {hero} always "
        "said.")},
    {"truth.deed", STORY_LIST(
        "But {one_day}, when nobody was looking, {hero} {mischief.deed}!",
        "{one_day}, {hero} was alone. {he} {mischief.deed}!",
        "It happened {truth.when}. {hero} {mischief.deed}!",
        "But {one_day}, {hero} {mischief.deed}!",
        "But a rule is soon forgotten. {one_day}, {hero} {mischief.deed}!",
        "{one_day}, it was so quiet in the house. {hero} was bored. And then {he} {mischief.deed}!",
        "{hero} did not mean to. But {he} {mischief.deed}!")},
    {"truth.when", STORY_LIST("on a Monday", "right after lunch", "before {he} knew it",
        "on a quiet {time}", "when the house was still")},
    {"truth.shock", STORY_LIST(
        "{hero} [stood still|held {his} breath|turned pale]. What now?",
        "\"{oh_no}!\" {he} {whispered}.", "{his} heart [stopped|beat fast|sank].",
        "For a moment, {hero} did not move at all.",
        "It was so quiet that {he} could hear {his} own heart.",
        "\"Maybe nobody will notice,\" {he} thought.",
        "{hero} wished that {he} could turn back the clock.",
        "{his} knees felt like pudding.")},
    {"truth.hide", STORY_LIST(
        "Then {mischief.hide}.", "Quickly, {mischief.hide}.",
        "Nobody had seen it. So {mischief.hide}.",
        "{he} looked left, and {he} looked right. Then {mischief.hide}.",
        "There was a sound on the stairs! {mischief.hide}.",
        "{his} hands were shaking, but {mischief.hide}.",
        "What do you do when you are afraid? {mischief.hide}.")},
    {"truth.ask", STORY_LIST(
        "\"Do you know anything about this?\" {elder} asked in the evening. \"{mischief.fib},\" "
        "said {hero}.",
        "When {elder} came home, {elder.he} looked around. \"What happened here?\" "
        "\"{mischief.fib},\" {hero} said quickly.",
        "{elder} noticed it soon. \"{hero}?\" {elder.he} asked. {hero} looked at the floor. "
        "\"{mischief.fib}.\"",
        "It did not take long. \"{hero}, what is this?\" asked {elder}. \"{mischief.fib},\" said "
        "{hero}, much too fast.",
        "At supper, {elder} put down the fork. \"Is there something you want to tell me?\" {hero} "
        "shook {his} head. \"{mischief.fib}.\"",
        "\"How did that happen?\" {elder} wondered. {hero} heard {himself} say, "
        "\"{mischief.fib}.\"")},
    {"truth.bad", STORY_LIST(
        "{elder} said nothing. But {hero} felt {sorry}. {his} supper tasted like paper.",
        "That night, {hero} could not sleep. The fib sat on {his} tummy like a stone.",
        "{hero} felt {sorry}. Even {his} favorite game was no fun any more.",
        "In bed, {hero} turned to the left and to the right. The fib would not let {him} sleep.",
        "From then on, {hero} could not look {elder} in the eye.")},
    {"truth.friend", STORY_LIST(
        "\"What is wrong with you?\" asked {friend1}. {hero} told {friend.him}. \"Just say it,\" "
        "said {friend}. \"It gets worse if you wait.\"",
        "\"I wish it had never happened,\" {hero} told {his} pillow.", "", "",
        "{friend1} knew at once that something was wrong. \"You have a stone in your tummy,\" "
        "{friend.he} said. \"You must spit it out.\"",
        "Even the dog looked at {him} in a strange way.",
        "{hero} tried to think of something else. It did not work.")},
    {"truth.tell", STORY_LIST(
        "In the end, {hero} [got up|took a deep breath|gathered all {his} courage] and went to "
        "{elder}. \"It was me,\" {he} {whispered}.",
        "The next morning, {hero} said it all in one breath: \"It was not true. I did it, and I am "
        "sorry.\"",
        "\"I have to tell you something,\" {hero} {sobbed}. And then it all came out.",
        "It was the middle of the night when {hero} stood at {elder}'s bed. \"I told you a fib,\" "
        "{he} {whispered}.",
        "\"It was me, it was me, it was me!\" {hero} burst out at breakfast.",
        "{hero} wrote it on a piece of paper and put it next to {elder}'s cup: \"I did it. I am "
        "sorry.\" Then {he} waited behind the door.")},
    {"truth.answer", STORY_LIST(
        "{elder} was quiet for a while. Then {elder.he} {hugged2} {him}. \"I know,\" {elder.he} "
        "said. \"I was waiting for you to tell me.\"",
        "\"I am not happy about it,\" said {elder}. \"But I am very happy that you told me.\"",
        "{elder} looked at {him} for a long time. \"That took courage,\" {elder.he} said.",
        "\"Thank you for telling the truth,\" said {elder}. {hero} cried a little, but it was a "
        "good cry.",
        "{elder} put down everything and opened {elder.his} arms.",
        "First {elder} looked sad. Then {elder.he} looked {proud}. \"It is not easy to say that,\" "
        "{elder.he} said.",
        "\"Come here, {dear},\" said {elder}. \"A broken rule can be mended. A broken word is much "
        "harder.\"")},
    {"truth.mend", STORY_LIST("Together they {mischief.mend}.", "Then they {mischief.mend}.",
        "After breakfast, they {mischief.mend}.")},
    {"truth.end", STORY_LIST(
        "The stone on {his} tummy was gone. {moral}",
        "That night, {hero} slept like a log. {moral}",
        "{hero} felt as light as a feather. {moral}",
        "And {hero} never told such a fib again.", "{moral} {goodnight}")},
    {"truth.lesson", STORY_LIST(
        "the truth makes your heart light", "a fib is heavier than a stone",
        "it is brave to say sorry", "everybody makes mistakes, but you should not hide them",
        "telling the truth is hard for a minute and good for a long time")},

    {"found.see", STORY_LIST(
        "{one_day}, {hero} was walking {place.to} when {he} saw something {place.spot}. It was "
        "{lost_thing}!",
        "{one_day}, {hero} found {lost_thing} {place.spot}.",
        "{one_day}, {hero} was playing {place.at} with {friend1}. {suddenly}, {he} saw "
        "{lost_thing}.",
        "\"Look what I have found!\" {hero} called one {time}. In {his} hand was {lost_thing}.",
        "{one_day}, {hero} stumbled over something {place.spot}. {he} picked it up. It was "
        "{lost_thing}!",
        "{weather_line} {hero} was on the way {place.to}. And there, {place.spot}, was "
        "{lost_thing}.",
        "Between two stones, something caught {his} eye one {time}. It was {lost_thing}, and there "
        "was nobody far and wide.")},
    {"found.want", STORY_LIST(
        "{hero} looked around. Nobody was there. \"Now it is mine,\" {he} thought. \"I will "
        "{lost_thing.plan}!\"",
        "How {hero} wanted to keep it! {he} could {lost_thing.plan}.",
        "\"Finders keepers,\" said {friend1}. \"You can {lost_thing.plan}.\" That sounded very "
        "good.",
        "{his} heart jumped. At last {he} could {lost_thing.plan}!",
        "\"It is my lucky day!\" thought {hero}. Now {he} could {lost_thing.plan}.",
        "{he} put it under {his} coat and ran home. That night, {he} lay awake and thought of how "
        "{he} would {lost_thing.plan}.",
        "\"What will you do with it?\" asked {friend1}. \"I will {lost_thing.plan},\" said {hero} "
        "without thinking.")},
    {"found.doubt", STORY_LIST(
        "But then {he} thought, \"Somebody is missing it right now.\"",
        "But a small voice inside {him} said, \"It belongs to somebody.\"",
        "But {he} could not be really happy about it. {he} remembered how sad {he} had been when "
        "{he} had lost {his} own [hat|ball|favorite marble].",
        "\"Whose is it?\" asked {elder}. {hero} did not know. \"Then somebody is sad now,\" said "
        "{elder}.",
        "But why did {he} feel so strange? It was as if somebody were looking at {him}.",
        "But then {he} saw how a little one was crying over a lost balloon, and something pinched "
        "{his} heart.",
        "But things that are not yours are heavy to carry, and with every step it got heavier.",
        "\"Would you like it if somebody kept yours?\" asked {elder}. {hero} looked at the "
        "floor.")},
    {"found.seek", STORY_LIST(
        "So {hero} asked {helper1}. {helper_sex.he} shook {helper_sex.his} head. {hero} asked "
        "{number} others, and nobody knew.",
        "So {hero} painted a sign and hung it on a tree: \"Found! Ask {hero}.\"",
        "So {he} went from door to door and asked.",
        "{hero} sat down right there and waited. It got late, and {he} got cold.",
        "So {hero} {walked} back to the same place and called, \"Who has lost something?\"",
        "So {he} told the baker, and the baker told the mail carrier, and soon all of them knew.",
        "So {hero} went from one end to the other and asked everyone {he} met. {number} said no, "
        "and one said, \"Maybe.\"",
        "{hero} took it to {helper1}. \"Let us look for the owner together,\" {helper_sex.he} "
        "said.")},
    {"found.owner", STORY_LIST(
        "And then {he} saw {lost_thing.owner}. \"Is this yours?\" asked {hero}.",
        "{at_last}, {he} met {lost_thing.owner}. {hero} knew at once.",
        "At the end of the street, there was {lost_thing.owner}. {hero} held out what {he} had "
        "found.",
        "It was already getting dark when {he} saw {lost_thing.owner}.",
        "\"Follow the tears,\" {elder} had said. And there was {lost_thing.owner}.",
        "The next morning, there was somebody at the door: {lost_thing.owner}. {hero} did not have "
        "to ask.")},
    {"found.joy", STORY_LIST(
        "What joy there was! The owner {lost_thing.thank}.",
        "The answer was a shout of joy. The owner {lost_thing.thank}.",
        "\"You found it!\" The owner was so happy and {lost_thing.thank}.",
        "There are smiles that one never forgets. This was one of them. The owner "
        "{lost_thing.thank}.",
        "For a moment, nobody said a word. Then the owner {lost_thing.thank}.",
        "\"I had given up all hope!\" The owner danced with joy and {lost_thing.thank}.")},
    {"found.end", STORY_LIST(
        "{hero} went home with empty hands, but {he} was {happy}. {moral}",
        "\"I could have kept it,\" {hero} told {elder}. \"But this is much better.\" {Moral_self}",
        "{moral} {goodnight}",
        "And that was worth much more than anything one can find on the ground. {moral}",
        "\"Were you not sad to give it away?\" asked {friend1}. {hero} thought about it. \"No,\" "
        "{he} said. {Moral_self}",
        "{elder} had seen it all from afar and was {proud}. {moral}",
        "That night, {hero} slept better than ever. {moral}")},
    {"found.lesson", STORY_LIST(
        "what you find is not always yours", "giving something back feels better than keeping it",
        "honest hands make happy hearts",
        "the joy of others is a present too",
        "finding is luck, but giving back is better",
        "a thing is happiest at home",
        "you cannot be happy with what makes somebody else cry")},
    {0}};

static const StoryPlot plots[] = {
    {"truth", STORY_CAST STORY_FAIR_DAY "mischief:mischief lesson=truth.lesson food:food",
     "{intro} {truth.rule} {elder_busy}\n\n{truth.deed} {truth.shock} {truth.hide}\n\n{truth.ask} "
        "{truth.bad} {truth.friend}\n\n{truth.tell} {truth.answer} "
     "{truth.mend}\n\n{truth.end}"},
    {"found", STORY_CAST STORY_FAIR_DAY "lost_thing:lost_thing lesson=found.lesson food:food",
     "{intro}\n\n{found.see} [{aside}|] {found.want}\n\n{found.doubt} "
        "{found.seek}\n\n{found.owner} {found.joy}\n\n{found.end}"},
    {0}};

const StoryContent stories_plots_truth = {.rules = rules, .tables = tables, .plots = plots};
