# The nccl backend, where LibTorch has CUDA and NCCL: FSDP_WITH_NCCL, and the headers that it is compiled with. They are a
# CUDA toolkit's, or those of the nvidia packages that Python's LibTorch brings along, beside it.

set(FSDP_WITH_NCCL OFF)
if(NOT TARGET torch_cuda)
  message(STATUS "LibTorch has no CUDA: built for CPUs, without the nccl backend")
  return()
endif()

get_target_property(cuda_definitions torch_cuda INTERFACE_COMPILE_DEFINITIONS)
if(NOT "USE_C10D_NCCL" IN_LIST cuda_definitions)
  message(STATUS "LibTorch has CUDA but no NCCL: ranks on GPUs go through the host's memory")
  return()
endif()

set(python_packages ${TORCH_INSTALL_PREFIX}/..)
file(GLOB cuda_packages ${python_packages}/nvidia/cu[0-9]* ${python_packages}/nvidia/*)
set(cuda_places ${cuda_packages} $ENV{CUDA_HOME} /usr/local/cuda)
set(missing "")
set(cuda_include "")
# crt/host_defines.h and nv/target are what CUDA's headers include in their turn.
foreach(header nccl.h cuda_runtime_api.h crt/host_defines.h nv/target cublas_v2.h cublasLt.h cusparse.h cusolverDn.h)
  string(MAKE_C_IDENTIFIER FSDP_INCLUDE_${header} place)
  find_path(${place} ${header} HINTS ${cuda_places} PATH_SUFFIXES include include/cccl)
  mark_as_advanced(${place})
  list(APPEND cuda_include ${${place}})
  if(NOT ${place})
    list(APPEND missing ${header})
  endif()
endforeach()
list(REMOVE_DUPLICATES cuda_include)
find_library(FSDP_CUDART NAMES cudart libcudart.so.13 libcudart.so.12 HINTS ${cuda_places} PATH_SUFFIXES lib lib64)
mark_as_advanced(FSDP_CUDART)
if(NOT FSDP_CUDART)
  list(APPEND missing libcudart)
endif()

if(missing)
  list(JOIN missing " " missing)
  message(STATUS "LibTorch has CUDA and NCCL, but these were not found: ${missing}. Built without the nccl backend: ranks "
                 "on GPUs go through the host's memory. Set CUDA_HOME, or CMAKE_PREFIX_PATH, to where they are")
else()
  set(FSDP_WITH_NCCL ON)
  set_target_properties(torch::cudart PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${cuda_include}"
                                                 INTERFACE_LINK_LIBRARIES "${FSDP_CUDART}")
  message(STATUS "nccl backend, with CUDA's headers from: ${cuda_include}")
endif()
