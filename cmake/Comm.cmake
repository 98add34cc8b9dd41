# Ranks: src/comm. The program links no MPI: what is compiled against one is a module of its own, pacer_mpi.so, that
# lies beside the program and is loaded when there are several ranks. Channels in a GPU's memory are src/cuda's.
function(pacer_add_comm target)
    set(folder "${CMAKE_CURRENT_SOURCE_DIR}/src/comm")
    file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.c")
    list(REMOVE_ITEM sources "${folder}/mpi.c")
    target_sources(${target} PRIVATE ${sources})
    target_link_libraries(${target} PUBLIC ${CMAKE_DL_LIBS})
    if(PACER_HAVE_MPI)
        add_library(pacer_mpi MODULE "${folder}/mpi.c")
        target_link_libraries(pacer_mpi PRIVATE pacer_flags MPI::MPI_C)
        target_compile_definitions(pacer_mpi PRIVATE PACER_MPI_LAUNCHER="${MPIEXEC_EXECUTABLE}")
        set_target_properties(pacer_mpi PROPERTIES PREFIX "" C_VISIBILITY_PRESET default
            LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
    endif()
endfunction()

# Built whenever the program is.
function(pacer_add_mpi_module program)
    if(TARGET pacer_mpi)
        add_dependencies(${program} pacer_mpi)
    endif()
endfunction()
