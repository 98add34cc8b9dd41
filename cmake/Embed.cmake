# Text files become string literals in one C file, so that the program has them inside: a table of
# {name, text} that ends with an empty row.
#
# Included, this file declares pacer_embed; run with cmake -P, it writes OUTPUT: HEADER included,
# the table declared as TABLE, a row for each of ROWS, "name=path" or "name=path+path" for files
# that become one text.
if(CMAKE_SCRIPT_MODE_FILE)
    set(code "#include \"${HEADER}\"\n\n${TABLE} = {\n")
    foreach(row IN LISTS ROWS)
        string(REGEX MATCH "^([^=]+)=(.+)$" row "${row}")
        string(APPEND code "    {\"${CMAKE_MATCH_1}\"")
        string(REPLACE "+" ";" paths "${CMAKE_MATCH_2}")
        set(before ",\n     ")
        foreach(path IN LISTS paths)
            file(READ "${path}" text)
            string(REGEX REPLACE "//# sourceMappingURL=[^\n]*" "" text "${text}") # is not embedded
            string(REPLACE "\\" "\\\\" text "${text}")
            string(REPLACE "\"" "\\\"" text "${text}")
            string(REPLACE "?" "\\?" text "${text}") # no trigraphs
            string(REPLACE "\n" "\\n\"\n     \"" text "${text}")
            string(APPEND code "${before}\"${text}\"")
            set(before "\n     ")
        endforeach()
        string(APPEND code "},\n")
    endforeach()
    string(APPEND code "    {0}};\n")
    file(WRITE "${OUTPUT}" "${code}")
    return()
endif()

# Embeds into the target; `rows` and `paths` are lists, the paths those that the rows name.
function(pacer_embed target name header table rows paths)
    set(output "${PROJECT_BINARY_DIR}/generated/${name}.c")
    set(script "${PROJECT_SOURCE_DIR}/cmake/Embed.cmake")
    add_custom_command(OUTPUT "${output}"
        COMMAND ${CMAKE_COMMAND} "-DHEADER=${header}" "-DTABLE=${table}" "-DROWS=${rows}"
            "-DOUTPUT=${output}" -P "${script}"
        DEPENDS ${paths} "${script}" COMMENT "Embedding ${name}" VERBATIM)
    target_sources(${target} PRIVATE "${output}")
endfunction()

# The folder stories/, sorted by path: the order of the plots is part of the corpus.
function(pacer_add_stories target)
    set(folder "${PROJECT_SOURCE_DIR}/stories")
    file(GLOB_RECURSE files RELATIVE "${folder}" CONFIGURE_DEPENDS "${folder}/*.txt")
    list(SORT files)
    list(TRANSFORM files PREPEND "${folder}/" OUTPUT_VARIABLE paths)
    list(TRANSFORM files REPLACE "(.+)" "stories/\\1=${folder}/\\1" OUTPUT_VARIABLE rows)
    pacer_embed(${target} stories_texts "data/stories_engine.h" "const StoryText stories_texts[]"
        "${rows}" "${paths}")
endfunction()

# The folder web/: what pages are made of. view.js and app.js are each made of several files, in
# this order. dygraphs, which draws lines, comes from the distribution and may be missing.
set(web_view tools.js save.js tables.js lines.js curves.js bars.js parallel.js view.js)
set(web_app app.js list.js run.js compare.js)
find_file(PACER_DYGRAPH_JS NAMES dygraph.min.js PATHS /usr/share/javascript/dygraphs
    PATH_SUFFIXES share/javascript/dygraphs share/javascript/dygraphs/dist dist)
find_file(PACER_DYGRAPH_CSS NAMES dygraph.min.css dygraph.css PATHS /usr/share/javascript/dygraphs
    PATH_SUFFIXES share/javascript/dygraphs share/javascript/dygraphs/dist dist)
if(PACER_DYGRAPH_JS AND PACER_DYGRAPH_CSS)
    pacer_summary_row(dygraphs "${PACER_DYGRAPH_JS}")
else()
    pacer_summary_row(dygraphs
        "left out: libjs-dygraphs is missing (pages show values in place of curves)")
endif()

function(pacer_add_web target)
    set(folder "${PROJECT_SOURCE_DIR}/web")
    foreach(list web_view web_app)
        list(TRANSFORM ${list} PREPEND "${folder}/")
        list(JOIN ${list} "+" ${list}_text)
    endforeach()
    set(rows "serve.html=${folder}/serve.html" "view.css=${folder}/view.css"
        "view.js=${web_view_text}" "app.js=${web_app_text}")
    set(paths "${folder}/serve.html" "${folder}/view.css" ${web_view} ${web_app})
    if(PACER_DYGRAPH_JS AND PACER_DYGRAPH_CSS)
        list(APPEND rows "dygraph.js=${PACER_DYGRAPH_JS}" "dygraph.css=${PACER_DYGRAPH_CSS}")
        list(APPEND paths "${PACER_DYGRAPH_JS}" "${PACER_DYGRAPH_CSS}")
    endif()
    pacer_embed(${target} web_texts "report/web.h" "const WebText web_texts[]" "${rows}" "${paths}")
endfunction()
