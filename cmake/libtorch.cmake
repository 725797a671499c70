# sullae_libtorch: the libtorch that was found, whoever made it: Debian's package, pip's wheel, or the official archive.
#
#   cmake -D CMAKE_PREFIX_PATH=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')
if(SULLAE_BUILD_PYTHON)
  # The torch that Python imports. pip builds in an environment of its own, which PYTHONPATH hides the other behind.
  find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=PYTHONPATH ${Python_EXECUTABLE} -c
            "import torch; print(torch.__version__); print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE imported ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${Python_EXECUTABLE} has no torch that can be imported: pip install torch before this, and where a "
                        "frontend builds elsewhere than there, pip install --no-build-isolation .")
  endif()
  string(REGEX MATCH "([^\n]+)\n([^\n]+)" imported "${imported}")
  set(SULLAE_TORCH_VERSION ${CMAKE_MATCH_1})
  set(prefix ${CMAKE_MATCH_2})
  list(PREPEND CMAKE_PREFIX_PATH ${prefix})
  if(NOT SULLAE_IMPORTED_TORCH STREQUAL prefix)
    # What an earlier build in this folder found of another torch.
    foreach(variable Torch_DIR Caffe2_DIR TORCH_LIBRARY TORCH_PYTHON_LIBRARY C10_LIBRARY)
      unset(${variable} CACHE)
    endforeach()
    set(SULLAE_IMPORTED_TORCH ${prefix} CACHE INTERNAL "Where Python imports torch from")
  endif()
endif()
if(Torch_DIR AND EXISTS "${Torch_DIR}/../Caffe2/Caffe2Config.cmake")
  set(Caffe2_DIR "${Torch_DIR}/../Caffe2")  # else it is looked for in the system's folders first
endif()
if(NOT DEFINED TORCH_CUDA_ARCH_LIST AND NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST})
  set(TORCH_CUDA_ARCH_LIST 8.0)  # nothing of ours is compiled for a GPU, and else torch asks the one that is there
endif()
find_package(Torch REQUIRED)
message(STATUS "libtorch ${Torch_VERSION} in ${TORCH_INSTALL_PREFIX}")
if(NOT TORCH_INSTALL_PREFIX STREQUAL "/usr")
  # By itself CMake leaves out folders below the source tree, where the virtual environment may be.
  list(APPEND CMAKE_INSTALL_RPATH ${TORCH_INSTALL_PREFIX}/lib)
endif()

# Wheels and archives bring fmt's and protobuf's headers along, of versions that are not the system's libraries': what is
# compiled sees libtorch's own folders alone.
set(headers ${TORCH_INSTALL_PREFIX}/include)
if(EXISTS ${headers}/fmt AND NOT headers STREQUAL "/usr/include")
  set(own ${PROJECT_BINARY_DIR}/libtorch)
  file(MAKE_DIRECTORY ${own})
  foreach(folder ATen c10 caffe2 torch)
    file(CREATE_LINK ${headers}/${folder} ${own}/${folder} SYMBOLIC)
  endforeach()
  get_directory_property(targets IMPORTED_TARGETS)
  foreach(target ${targets})
    get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(folders)
      list(TRANSFORM folders REPLACE "^${headers}" ${own})
      set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${folders}")
    endif()
  endforeach()
endif()

# By the name of its target: TORCH_LIBRARIES also has files that are looked for in the system's folders first, where another
# libtorch may be.
add_library(sullae_libtorch INTERFACE)
set_target_properties(sullae_libtorch PROPERTIES EXPORT_NAME libtorch)
target_link_libraries(sullae_libtorch INTERFACE torch)
# PyPI's CUDA builds export what they carry of an older libstdc++, whose std::filesystem crashes within the system's: the
# system's is loaded before them.
target_link_options(sullae_libtorch INTERFACE
                    $<$<CXX_COMPILER_ID:GNU,Clang>:LINKER:--push-state,--no-as-needed,-lstdc++,--pop-state>)
install(TARGETS sullae_libtorch EXPORT SullaeTargets)
