# CUDA, cuDNN and MPI: looked for, none of them needed. Sets PACER_HAVE_CUDA, _CUDNN and _MPI, and one
# summary row for each, with the reason when it was left out. NCCL is looked for by the program itself; it has
# a row all the same.
set(PACER_HAVE_CUDA FALSE)
set(PACER_HAVE_CUDNN FALSE)
set(PACER_HAVE_MPI FALSE)
set(PACER_FOUND_TEXT)
set(PACER_ABSENT_TEXT)

macro(pacer_accelerator flag name version path)
    set(${flag} TRUE)
    list(APPEND PACER_FOUND_TEXT "${name} ${version}")
    pacer_summary_row(${name} "${version}, ${path}")
endmacro()

macro(pacer_left_out name reason)
    list(APPEND PACER_ABSENT_TEXT "${name}")
    pacer_summary_row(${name} "left out: ${reason}")
endmacro()

# The value of `#define name N` in a header, or "".
function(pacer_header_number header name out)
    set(${out} "" PARENT_SCOPE)
    file(STRINGS "${header}" line REGEX "^#define[ \t]+${name}[ \t]+[0-9]+" LIMIT_COUNT 1)
    if(line MATCHES "([0-9]+)[ \t]*(/\\*.*|//.*)?$")
        set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
    endif()
endfunction()

# A library of header + shared object, beside the CUDA toolkit or in the usual places; its version
# is read from three defines of the header.
macro(pacer_find_device_library flag name header version_header library defines)
    find_path(${flag}_INCLUDE_DIR NAMES ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS}
        $ENV{${name}_ROOT}/include)
    find_library(${flag}_LIBRARY NAMES ${library} HINTS ${CUDAToolkit_LIBRARY_DIR}
        $ENV{${name}_ROOT}/lib)
    if(NOT PACER_HAVE_CUDA)
        pacer_left_out(${name} "of no use without CUDA")
    elseif(NOT ${flag}_INCLUDE_DIR)
        pacer_left_out(${name} "${header} not found")
    elseif(NOT ${flag}_LIBRARY)
        pacer_left_out(${name} "lib${library} not found")
    else()
        set(version_parts)
        foreach(define ${defines})
            pacer_header_number("${${flag}_INCLUDE_DIR}/${version_header}" ${define} part)
            list(APPEND version_parts "${part}")
        endforeach()
        list(JOIN version_parts "." version)
        pacer_accelerator(${flag} ${name} "${version}" "${${flag}_LIBRARY}")
    endif()
endmacro()

if(NOT PACER_CUDA)
    foreach(name CUDA cuDNN NCCL)
        pacer_left_out(${name} "PACER_CUDA=OFF")
    endforeach()
else()
    find_package(CUDAToolkit QUIET)
    # Kernels take minutes to compile: not for nothing.
    file(GLOB gpus /dev/nvidia[0-9]* /dev/dxg)
    if(PACER_CUDA STREQUAL "AUTO" AND NOT gpus)
        pacer_left_out(CUDA "no GPU in this machine (make CUDA=1 builds it all the same)")
    elseif(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
        set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
        set(CMAKE_CUDA_ARCHITECTURES OFF) # set per target
        enable_language(CUDA)
        pacer_accelerator(PACER_HAVE_CUDA CUDA "${CUDAToolkit_VERSION}"
            "${CUDAToolkit_NVCC_EXECUTABLE}")
    elseif(CUDAToolkit_FOUND)
        pacer_left_out(CUDA "toolkit ${CUDAToolkit_VERSION} has no nvcc")
    else()
        pacer_left_out(CUDA "no nvcc found")
    endif()
    if(NOT PACER_HAVE_CUDA AND NOT PACER_CUDA STREQUAL "AUTO")
        message(FATAL_ERROR "PACER_CUDA=${PACER_CUDA} asks for CUDA, but there is no nvcc. Put it on "
            "PATH, name the toolkit with -DCUDAToolkit_ROOT=..., or leave CUDA out (make CUDA=0).")
    endif()
    pacer_find_device_library(PACER_HAVE_CUDNN cuDNN cudnn.h cudnn_version.h cudnn
        "CUDNN_MAJOR;CUDNN_MINOR;CUDNN_PATCHLEVEL")
    find_library(PACER_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR}
        $ENV{NCCL_ROOT}/lib)
    if(NOT PACER_HAVE_CUDA)
        pacer_left_out(NCCL "of no use without CUDA")
    elseif(PACER_NCCL_LIBRARY)
        pacer_summary_row(NCCL "${PACER_NCCL_LIBRARY}, loaded when several ranks use GPUs")
    else()
        pacer_summary_row(NCCL "not found here; loaded when several ranks use GPUs")
    endif()
endif()

# Where a compiler is named (-DMPI_C_COMPILER=mpicc.mpich), its mpiexec is the one beside it with the same ending;
# FindMPI would take the first on PATH, which may belong to another MPI.
if(MPI_C_COMPILER AND NOT MPIEXEC_EXECUTABLE)
    find_program(mpi_compiler NAMES "${MPI_C_COMPILER}" NO_CACHE)
    if(mpi_compiler MATCHES "^(.*)/mpi[a-z]+([^/]*)$")
        find_program(MPIEXEC_EXECUTABLE NAMES "mpiexec${CMAKE_MATCH_2}" "mpirun${CMAKE_MATCH_2}"
            HINTS "${CMAKE_MATCH_1}" NO_DEFAULT_PATH)
    endif()
endif()
find_package(MPI QUIET COMPONENTS C)
if(MPI_C_FOUND)
    pacer_accelerator(PACER_HAVE_MPI MPI "${MPI_C_VERSION}" "${MPI_C_COMPILER}")
else()
    pacer_left_out(MPI "no mpicc found (make setup brings Open MPI): one rank only")
endif()

list(JOIN PACER_FOUND_TEXT ", " PACER_FOUND_TEXT)
list(JOIN PACER_ABSENT_TEXT ", " PACER_ABSENT_TEXT)

function(pacer_print_summary)
    message(NOTICE "")
    message(NOTICE "pacer ${PROJECT_VERSION}, ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION},"
        " ${CMAKE_BUILD_TYPE}")
    foreach(row IN LISTS PACER_SUMMARY)
        if(row MATCHES "^([^|]+)\\|(.*)$")
            set(name "${CMAKE_MATCH_1}            ")
            string(SUBSTRING "${name}" 0 12 name)
            message(NOTICE "  ${name} ${CMAKE_MATCH_2}")
        endif()
    endforeach()
    if(PACER_SANITIZE)
        message(NOTICE "  sanitizers are on: ${PACER_SANITIZE_TEXT}")
    endif()
    if(NOT TARGET pacer)
        message(NOTICE "  src/cli is empty: no program is built")
    endif()
    message(NOTICE "")
endfunction()
