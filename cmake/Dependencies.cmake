# What pacer is built from: OpenMP, a CBLAS, cJSON, libyaml, xxHash, PCRE2, utf8proc; oneDNN if it is
# there; cmocka for the tests.
# Gives the target pacer_libraries, PACER_HAVE_CMOCKA, PACER_BLAS_TEXT, and collects rows for the
# summary. Everything that is missing is named in one message, with the command that brings it.
include(CheckCSourceCompiles)
include(CMakePushCheckState)

set(PACER_SUMMARY "" CACHE INTERNAL "rows of the summary")
set(missing_names)
set(missing_packages)

# One row of the table that configuring ends with: "name|value".
function(pacer_summary_row name value)
    set(PACER_SUMMARY "${PACER_SUMMARY};${name}|${value}" CACHE INTERNAL "rows of the summary")
endfunction()

macro(pacer_missing name package)
    list(APPEND missing_names "${name}")
    list(APPEND missing_packages "${package}")
endmacro()

add_library(pacer_libraries INTERFACE)

find_package(PkgConfig QUIET)
if(NOT PKG_CONFIG_FOUND)
    pacer_missing(pkg-config pkg-config)
endif()

# A library known to pkg-config. `target` receives it.
macro(pacer_find_module target prefix module name package)
    if(PKG_CONFIG_FOUND)
        pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
    endif()
    if(${prefix}_FOUND)
        target_link_libraries(${target} INTERFACE PkgConfig::${prefix})
        list(GET ${prefix}_LINK_LIBRARIES 0 path)
        pacer_summary_row(${name} "${${prefix}_VERSION}, ${path}")
    else()
        pacer_missing(${name} ${package})
    endif()
endmacro()

find_package(Threads REQUIRED)
target_link_libraries(pacer_libraries INTERFACE Threads::Threads m)

find_package(OpenMP QUIET COMPONENTS C)
if(OpenMP_C_FOUND)
    target_link_libraries(pacer_libraries INTERFACE OpenMP::OpenMP_C)
    pacer_summary_row(OpenMP "${OpenMP_C_VERSION}, ${OpenMP_C_FLAGS}")
elseif(CMAKE_C_COMPILER_ID MATCHES Clang)
    pacer_missing("OpenMP (for clang)" libomp-dev)
else()
    pacer_missing(OpenMP build-essential)
endif()

# A CBLAS. OpenBLAS's OpenMP build comes first, linked by its own path: it shares pacer's threads,
# while the pthread build starts as many again beside them. -DCBLAS_LIBRARY= and
# -DCBLAS_INCLUDE_DIR= name another one.
set(arch "${CMAKE_LIBRARY_ARCHITECTURE}")
find_library(CBLAS_LIBRARY NAMES openblas
    PATHS /usr/lib/${arch}/openblas-openmp NO_DEFAULT_PATH)
find_library(CBLAS_LIBRARY NAMES openblas openblaso cblas blis
    PATH_SUFFIXES openblas-openmp openblas-pthread)
set(blas_hint)
if(CBLAS_LIBRARY MATCHES "openblas-[a-z]+")
    set(blas_hint "${CMAKE_MATCH_0}")
endif()
find_path(CBLAS_INCLUDE_DIR NAMES cblas.h
    HINTS /usr/include/${arch}/${blas_hint} /usr/include/${blas_hint}
    PATH_SUFFIXES openblas ${arch} ${arch}/openblas-pthread)
set(PACER_BLAS_TEXT "no CBLAS")
if(CBLAS_LIBRARY AND CBLAS_INCLUDE_DIR)
    cmake_push_check_state(RESET)
    set(CMAKE_REQUIRED_INCLUDES "${CBLAS_INCLUDE_DIR}")
    set(CMAKE_REQUIRED_LIBRARIES "${CBLAS_LIBRARY}" m)
    check_c_source_compiles("#include <cblas.h>
        int main(void) {
            float a[1] = {2};
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1, a, 1, a, 1, 0, a, 1);
            return 0;
        }" PACER_CBLAS_LINKS)
    check_c_source_compiles("#include <cblas.h>
        int main(void) { return openblas_get_num_threads() < 0 || !openblas_get_config(); }"
        PACER_CBLAS_IS_OPENBLAS)
    cmake_pop_check_state()
endif()
if(PACER_CBLAS_LINKS)
    target_include_directories(pacer_libraries SYSTEM INTERFACE "${CBLAS_INCLUDE_DIR}")
    target_link_libraries(pacer_libraries INTERFACE "${CBLAS_LIBRARY}")
    set(PACER_BLAS_TEXT "CBLAS")
    if(PACER_CBLAS_IS_OPENBLAS)
        target_compile_definitions(pacer_libraries INTERFACE PACER_HAVE_OPENBLAS=1)
        set(PACER_BLAS_TEXT "OpenBLAS")
        if(EXISTS "${CBLAS_INCLUDE_DIR}/openblas_config.h")
            file(STRINGS "${CBLAS_INCLUDE_DIR}/openblas_config.h" line REGEX "OPENBLAS_VERSION")
            if(line MATCHES "OpenBLAS ([0-9.]+)")
                set(PACER_BLAS_TEXT "OpenBLAS ${CMAKE_MATCH_1}")
            endif()
        endif()
    endif()
    pacer_summary_row(CBLAS "${PACER_BLAS_TEXT}, ${CBLAS_LIBRARY}")
else()
    pacer_missing("a CBLAS" libopenblas-openmp-dev)
endif()

# oneDNN is optional: where it is found, its sgemm takes the place of the CBLAS's.
if(PACER_ONEDNN)
    find_library(ONEDNN_LIBRARY NAMES dnnl)
    find_path(ONEDNN_INCLUDE_DIR NAMES dnnl.h)
endif()
if(PACER_ONEDNN AND ONEDNN_LIBRARY AND ONEDNN_INCLUDE_DIR)
    target_include_directories(pacer_libraries SYSTEM INTERFACE "${ONEDNN_INCLUDE_DIR}")
    target_link_libraries(pacer_libraries INTERFACE "${ONEDNN_LIBRARY}")
    target_compile_definitions(pacer_libraries INTERFACE PACER_HAVE_ONEDNN=1)
    string(APPEND PACER_BLAS_TEXT ", oneDNN")
    pacer_summary_row(oneDNN "${ONEDNN_LIBRARY}")
elseif(PACER_ONEDNN)
    pacer_summary_row(oneDNN "left out: libdnnl-dev is missing; the CBLAS multiplies matrices")
else()
    pacer_summary_row(oneDNN "left out: PACER_ONEDNN=OFF")
endif()

pacer_find_module(pacer_libraries CJSON libcjson cJSON libcjson-dev)
pacer_find_module(pacer_libraries YAML yaml-0.1 libyaml libyaml-dev)
pacer_find_module(pacer_libraries XXHASH libxxhash xxHash libxxhash-dev)
pacer_find_module(pacer_libraries PCRE2 libpcre2-8 PCRE2 libpcre2-dev)
pacer_find_module(pacer_libraries UTF8PROC libutf8proc utf8proc libutf8proc-dev)

# libmicrohttpd is optional: pacer serve is left out without it.
add_library(pacer_http INTERFACE)
if(PKG_CONFIG_FOUND)
    pkg_check_modules(MICROHTTPD QUIET IMPORTED_TARGET libmicrohttpd)
endif()
if(MICROHTTPD_FOUND)
    target_link_libraries(pacer_http INTERFACE PkgConfig::MICROHTTPD)
    target_compile_definitions(pacer_http INTERFACE PACER_HAVE_MICROHTTPD=1)
    pacer_summary_row(microhttpd "${MICROHTTPD_VERSION}")
else()
    pacer_summary_row(microhttpd "left out: libmicrohttpd-dev is missing (there is no pacer serve)")
endif()

set(PACER_HAVE_CMOCKA FALSE)
if(PACER_TESTS)
    add_library(pacer_test_libraries INTERFACE)
    if(PACER_TESTS STREQUAL "AUTO" AND PKG_CONFIG_FOUND)
        pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
    endif()
    if(CMOCKA_FOUND OR NOT PACER_TESTS STREQUAL "AUTO")
        pacer_find_module(pacer_test_libraries CMOCKA cmocka cmocka libcmocka-dev)
        set(PACER_HAVE_CMOCKA ${CMOCKA_FOUND})
    else()
        pacer_summary_row(tests "left out: cmocka is missing (make setup brings it)")
    endif()
else()
    pacer_summary_row(tests "left out: PACER_TESTS=OFF")
endif()

if(missing_names)
    list(JOIN missing_names ", " names)
    list(JOIN missing_packages " " packages)
    message(FATAL_ERROR "pacer needs what this machine does not have: ${names}.\n"
        "Run `make setup`, or on Debian and Ubuntu:\n"
        "    sudo apt-get install --no-install-recommends ${packages}\n"
        "then configure again. Libraries elsewhere: -DCMAKE_PREFIX_PATH=... or PKG_CONFIG_PATH.")
endif()
