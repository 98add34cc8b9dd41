# The text files of stories/ become string literals in one C file, so that the program has them
# inside. They are sorted by path: the order of the plots is part of the corpus.
#
# Included, this file declares pacer_add_stories; run with cmake -P, it writes OUTPUT from FILES,
# which are relative to FOLDER.
if(CMAKE_SCRIPT_MODE_FILE)
    set(code "#include \"data/stories_engine.h\"\n\nconst StoryText stories_texts[] = {\n")
    foreach(file IN LISTS FILES)
        file(READ "${FOLDER}/${file}" text)
        string(REPLACE "\\" "\\\\" text "${text}")
        string(REPLACE "\"" "\\\"" text "${text}")
        string(REPLACE "?" "\\?" text "${text}") # no trigraphs
        string(REPLACE "\n" "\\n\"\n     \"" text "${text}")
        string(APPEND code "    {\"stories/${file}\",\n     \"${text}\"},\n")
    endforeach()
    string(APPEND code "    {0}};\n")
    file(WRITE "${OUTPUT}" "${code}")
    return()
endif()

function(pacer_add_stories target)
    set(folder "${PROJECT_SOURCE_DIR}/stories")
    set(output "${PROJECT_BINARY_DIR}/generated/stories_texts.c")
    set(script "${PROJECT_SOURCE_DIR}/cmake/Stories.cmake")
    file(GLOB_RECURSE files RELATIVE "${folder}" CONFIGURE_DEPENDS "${folder}/*.txt")
    list(SORT files)
    list(TRANSFORM files PREPEND "${folder}/" OUTPUT_VARIABLE paths)
    add_custom_command(OUTPUT "${output}"
        COMMAND ${CMAKE_COMMAND} "-DFOLDER=${folder}" "-DFILES=${files}" "-DOUTPUT=${output}"
            -P "${script}"
        DEPENDS ${paths} "${script}" COMMENT "Embedding the stories" VERBATIM)
    target_sources(${target} PRIVATE "${output}")
endfunction()
