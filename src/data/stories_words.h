#pragma once
/* The parts of the content, one per stories_*.c file; stories_words.c lists them all. */
#include "data/stories_content.h"

extern const StoryContent stories_words; /* feelings, sizes, colours, ways to move and to speak */
extern const StoryContent stories_synonyms; /* other ways of saying the same */
extern const StoryContent stories_people;  /* names, pronouns, traits, hobbies, families, helpers */
extern const StoryContent stories_animals; /* kinds of animals, where they live, how they move */
extern const StoryContent stories_things;  /* toys and treasures, and what is done with them */
extern const StoryContent stories_places;  /* seasons, weather, times of day, places */
extern const StoryContent stories_beats;   /* openings, asides, thanks, endings of all plots */
extern const StoryContent stories_moods;   /* looks, small sights, feelings, good nights */
extern const StoryContent stories_plots_lost;
extern const StoryContent stories_plots_friend;
extern const StoryContent stories_plots_broken;
extern const StoryContent stories_plots_fear;
extern const StoryContent stories_plots_sharing;
extern const StoryContent stories_plots_visit;
extern const StoryContent stories_plots_storm;
extern const StoryContent stories_plots_race;
extern const StoryContent stories_plots_surprise;
extern const StoryContent stories_plots_helping;
extern const StoryContent stories_plots_growing;
extern const StoryContent stories_plots_sound;
extern const StoryContent stories_plots_kitchen;
extern const StoryContent stories_plots_truth;
extern const StoryContent stories_plots_building;
extern const StoryContent stories_plots_wish;
extern const StoryContent stories_plots_toys;
extern const StoryContent stories_plots_sleep;
extern const StoryContent stories_plots_errand;

/* Who every plot may need: a hero, a friend, an older one, and the season and hour of it all. */
#define STORY_CAST                                                                    \
    "world:world season:season hero:sex hero_kind:animal hero=hero_name trait:trait " \
    "hobby:hobby hobby2:hobby friend:sex friend_kind:animal friend=friend_name "      \
    "elder:elder "                                                                    \
    "helper_sex:sex helper:helper helper=helper_name "

/* An ordinary day outside. */
#define STORY_FAIR_DAY "time:time<day> weather:weather<fair> place:place<outdoor> "
