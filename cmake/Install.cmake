# The shared library, and where everything goes: cmake --install, make install, make package.
#
#   bin/pacer                        lib/libpacer.so.0              include/pacer.h
#   lib/pacer/pacer_mpi.so           lib/pkgconfig, lib/cmake       share/man/man1
#   share/pacer/recipes, peer        share/doc/pacer                completions of three shells
#
# The program finds its module and its recipes from where it lies itself, so the tree may be moved as a whole.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Everything is compiled once, position-independent, for the program and for the library. What pacer.h does
# not declare stays inside: calls among pacer's own functions then need no table to go through.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)

# A library outside the loader's own folders (OpenBLAS's OpenMP build, CUDA) is found where it was linked.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# libpacer.so: the functions of include/pacer.h over the same code as the program's.
function(pacer_add_library core)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/api/*.c")
    add_library(pacer_api OBJECT ${sources})
    target_link_libraries(pacer_api PRIVATE pacer_flags pacer_libraries)
    target_sources(${core} PRIVATE $<TARGET_OBJECTS:pacer_api>)
    add_library(pacer_shared SHARED $<TARGET_OBJECTS:pacer_api>)
    target_link_libraries(pacer_shared PRIVATE ${core})
    set(map "${PROJECT_SOURCE_DIR}/cmake/libpacer.map")
    target_link_options(pacer_shared PRIVATE "LINKER:--version-script=${map}")
    set_target_properties(pacer_shared PROPERTIES OUTPUT_NAME pacer EXPORT_NAME pacer
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS "${map}")
    target_include_directories(pacer_shared
        INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
endfunction()

# What the program writes about itself: manual pages, and completion for shells.
function(pacer_add_generated program)
    set(folder "${PROJECT_BINARY_DIR}/generated")
    set(completion "${folder}/completion")
    add_custom_command(OUTPUT "${folder}/man/pacer.1" "${completion}/pacer" "${completion}/_pacer"
            "${completion}/pacer.fish"
        COMMAND ${CMAKE_COMMAND} -E rm -rf "${folder}/man" "${completion}"
        COMMAND ${CMAKE_COMMAND} -E make_directory "${folder}/man" "${completion}"
        COMMAND ${program} help --man-pages "${folder}/man"
        COMMAND ${program} completion bash > "${completion}/pacer"
        COMMAND ${program} completion zsh > "${completion}/_pacer"
        COMMAND ${program} completion fish > "${completion}/pacer.fish"
        DEPENDS ${program} COMMENT "Writing manual pages and completions" VERBATIM)
    add_custom_target(pacer_generated ALL DEPENDS "${folder}/man/pacer.1")
    # All that is installed, for those who build no tests.
    add_custom_target(installable DEPENDS ${program} pacer_shared pacer_generated)
endfunction()

function(pacer_install program)
    set(generated "${PROJECT_BINARY_DIR}/generated")
    install(TARGETS ${program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    install(TARGETS pacer_shared EXPORT pacer LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
    install(FILES "${PROJECT_SOURCE_DIR}/include/pacer.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    if(TARGET pacer_mpi)
        # Not below the architecture's folder: src/comm/module.c looks in lib/pacer.
        install(TARGETS pacer_mpi LIBRARY DESTINATION lib/pacer)
    endif()

    # How other programs find the library. The paths are relative to the files.
    file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
    string(REGEX REPLACE "/$" "" PACER_PREFIX_UP "${up}")
    configure_file("${PROJECT_SOURCE_DIR}/cmake/pacer.pc.in" "${generated}/pacer.pc" @ONLY)
    install(FILES "${generated}/pacer.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
    set(cmake_folder "${CMAKE_INSTALL_LIBDIR}/cmake/pacer")
    install(EXPORT pacer NAMESPACE pacer:: FILE pacer-config.cmake DESTINATION "${cmake_folder}")
    write_basic_package_version_file("${generated}/pacer-config-version.cmake"
        COMPATIBILITY SameMinorVersion)
    install(FILES "${generated}/pacer-config-version.cmake" DESTINATION "${cmake_folder}")

    install(DIRECTORY "${generated}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
    set(completion "${generated}/completion")
    install(FILES "${completion}/pacer"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
    install(FILES "${completion}/_pacer" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
    install(FILES "${completion}/pacer.fish"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
    # Not CMAKE_INSTALL_DATADIR: src/cli/cmd_sweep.c and src/study/peer.c look there.
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/recipes/" DESTINATION share/pacer/recipes)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/tools/peer" DESTINATION share/pacer
        FILES_MATCHING PATTERN "*.py")
    install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
        "${PROJECT_SOURCE_DIR}/LICENSE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        FILES_MATCHING PATTERN "*.md" REGEX "/docs/results/[^/.]*$" EXCLUDE PATTERN img EXCLUDE)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

    add_custom_target(uninstall
        COMMAND ${CMAKE_COMMAND} "-DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt"
            -P "${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake"
        COMMENT "Removing what was installed" USES_TERMINAL VERBATIM)
endfunction()

# pacer_0.2.0_amd64.deb. What the files are linked to becomes their dependencies (dpkg-shlibdeps): a build
# without CUDA asks for nothing of NVIDIA's.
macro(pacer_package)
    set(CPACK_GENERATOR DEB)
    set(CPACK_PACKAGE_NAME pacer)
    set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
    set(CPACK_PACKAGE_CONTACT "The pacer authors <pacer@localhost>")
    set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains language models and accounts for every second")
    set(CPACK_PACKAGE_DESCRIPTION "pacer trains GPT-2, Llama and TTT language models from scratch,
in one process or many, and keeps a record of every run in which times,
bytes and tokens add up.
.
This package has the program, the library with its header, manual pages,
and completions for bash, zsh and fish.")
    set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
    set(CPACK_STRIP_FILES ON)
    set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
    set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
    set(CPACK_DEBIAN_PACKAGE_SECTION science)
    set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
    set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
    if(CBLAS_LIBRARY MATCHES "openblas-openmp")
        # Any OpenBLAS would do for the linker; this is the one that shares pacer's threads.
        set(CPACK_DEBIAN_PACKAGE_DEPENDS libopenblas0-openmp)
    endif()
    set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox")
    if(TARGET pacer_mpi)
        string(APPEND CPACK_DEBIAN_PACKAGE_RECOMMENDS ", openmpi-bin")
    endif()
    include(CPack)
endmacro()
