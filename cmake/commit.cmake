# Run at every build: writes PACER_COMMIT into OUTPUT when it changed. The mark "+changes" says that
# tracked files differ from the commit.
set(commit unknown)
if(GIT)
    execute_process(COMMAND "${GIT}" -C "${SOURCE}" rev-parse --show-toplevel
        OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    file(REAL_PATH "${SOURCE}" source)
    # A copy of the source inside somebody else's repository has no commit of its own.
    if(top STREQUAL source)
        execute_process(COMMAND "${GIT}" -C "${SOURCE}" --no-optional-locks describe --always
            --abbrev=12 --exclude=* --dirty=+changes RESULT_VARIABLE status OUTPUT_VARIABLE text
            OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        if(status EQUAL 0 AND text)
            set(commit "${text}")
        endif()
    endif()
endif()
set(wanted "#define PACER_COMMIT \"${commit}\"\n")
set(present)
if(EXISTS "${OUTPUT}")
    file(READ "${OUTPUT}" present)
endif()
if(NOT wanted STREQUAL present)
    file(WRITE "${OUTPUT}" "${wanted}")
endif()
