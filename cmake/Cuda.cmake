# The CUDA backend: src/cuda as C and CUDA C with cuBLASLt where nvcc was found, else src/cuda/absent.c, which
# says that it was left out. cuDNN is loaded at run time; its header decides whether that code is compiled.
#
#   PACER_CUDA_ARCHITECTURES   80-real;90a-real;90-virtual by default: machine code for Ampere and Hopper, and
#                              PTX that the driver compiles for anything newer. The a in 90a is for Hopper's
#                              own instructions (src/cuda/wgmma.cuh), which no newer GPU has; with 90-real
#                              attention takes the kernels that every GPU takes
function(pacer_add_cuda target)
    set(folder "${CMAKE_CURRENT_SOURCE_DIR}/src/cuda")
    if(NOT PACER_HAVE_CUDA)
        target_sources(${target} PRIVATE "${folder}/absent.c" "${folder}/sensors.c")
        target_link_libraries(${target} PUBLIC ${CMAKE_DL_LIBS})
        return()
    endif()
    set(PACER_CUDA_ARCHITECTURES "80-real;90a-real;90-virtual" CACHE STRING "GPUs to compile for")
    file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.c" "${folder}/*.cu")
    list(REMOVE_ITEM sources "${folder}/absent.c")
    if(PACER_HAVE_CUDNN)
        list(REMOVE_ITEM sources "${folder}/cudnn_absent.c")
    else()
        list(REMOVE_ITEM sources "${folder}/cudnn_attention.c" "${folder}/cudnn_graph.c")
    endif()
    # Kernels are an object library of their own: the warnings of C are not those of CUDA C.
    set(kernels ${sources})
    list(FILTER kernels INCLUDE REGEX "\\.cu$")
    list(FILTER sources EXCLUDE REGEX "\\.cu$")
    add_library(pacer_cuda_kernels OBJECT ${kernels})
    set_target_properties(pacer_cuda_kernels PROPERTIES CUDA_STANDARD 17
        CUDA_ARCHITECTURES "${PACER_CUDA_ARCHITECTURES}")
    target_include_directories(pacer_cuda_kernels PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
    target_compile_options(pacer_cuda_kernels PRIVATE -O3 -lineinfo
        --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra
        "-Xcompiler=-fmacro-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}/=")
    target_sources(${target} PRIVATE ${sources} $<TARGET_OBJECTS:pacer_cuda_kernels>)
    target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    if(PACER_HAVE_CUDNN)
        target_include_directories(${target} SYSTEM PRIVATE "${PACER_HAVE_CUDNN_INCLUDE_DIR}")
        target_compile_definitions(${target} PRIVATE PACER_HAVE_CUDNN=1)
    endif()
    # The runtime is linked into the program and finds the driver by itself; a machine without one runs on
    # its processor.
    target_link_libraries(${target} PUBLIC CUDA::cudart_static CUDA::cublasLt ${CMAKE_DL_LIBS} rt)
endfunction()
