# Version, commit and features reach one file only, src/base/version.c, through generated headers,
# so that a commit recompiles that file and nothing else.
set(features "CPU ${CMAKE_SYSTEM_PROCESSOR} (${PACER_ISA_TEXT}), ${PACER_BLAS_TEXT}")
string(APPEND features ", OpenMP ${OpenMP_C_VERSION}")
if(PACER_SANITIZE)
    string(APPEND features ", sanitizers")
endif()
if(PACER_FOUND_TEXT)
    string(APPEND features "; with ${PACER_FOUND_TEXT}")
endif()
if(PACER_ABSENT_TEXT)
    string(APPEND features "; left out: ${PACER_ABSENT_TEXT}")
endif()

set(PACER_FEATURES "${features}")
set(generated "${PROJECT_BINARY_DIR}/generated")
configure_file("${PROJECT_SOURCE_DIR}/cmake/build_info.h.in" "${generated}/build_info.h" @ONLY)

function(pacer_add_version target)
    find_package(Git QUIET)
    set(generated "${PROJECT_BINARY_DIR}/generated")
    add_custom_target(pacer_commit
        COMMAND ${CMAKE_COMMAND} "-DGIT=${GIT_EXECUTABLE}" "-DSOURCE=${PROJECT_SOURCE_DIR}"
            "-DOUTPUT=${generated}/build_commit.h" -P "${PROJECT_SOURCE_DIR}/cmake/commit.cmake"
        BYPRODUCTS "${generated}/build_commit.h"
        COMMENT "Reading the commit" VERBATIM)
    add_dependencies(${target} pacer_commit)
    set_source_files_properties("${PROJECT_SOURCE_DIR}/src/base/version.c" PROPERTIES
        OBJECT_DEPENDS "${generated}/build_commit.h"
        COMPILE_OPTIONS "-include;${generated}/build_info.h;-include;${generated}/build_commit.h")
endfunction()
