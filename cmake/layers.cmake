# sullae_layer(<name> SOURCES … DEPENDS …): one folder of src/ as a static library.
#
# A layer sees the headers of the layers that it names, and theirs, and no others: its include path holds links to just
# those folders, so that an include that points upwards does not compile.
function(sullae_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;DEPENDS" ${ARGN})
  set(root ${PROJECT_BINARY_DIR}/layers/${name})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${name} ${root}/${name} SYMBOLIC)

  list(TRANSFORM LAYER_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/src/${name}/)
  add_library(sullae_${name} STATIC ${LAYER_SOURCES})
  add_library(Sullae::${name} ALIAS sullae_${name})
  set_target_properties(sullae_${name} PROPERTIES EXPORT_NAME ${name})
  sullae_unity(sullae_${name})
  target_include_directories(sullae_${name} PUBLIC $<BUILD_INTERFACE:${root}>)
  target_link_libraries(sullae_${name} PUBLIC sullae_headers ${LAYER_DEPENDS} PRIVATE sullae_warnings)
  install(TARGETS sullae_${name} EXPORT SullaeTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/sullae)
endfunction()

# Most of what a source costs is what every source costs: libtorch's precompiled header alone is 600 MB, and the code of its
# inline functions is made once a source: some 13 seconds, and half a second is the source's own. So sixteen are compiled together.
function(sullae_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${SULLAE_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 16)
endfunction()
