# Arrow C++ with Parquet, 23 or newer: ArrowParquet_FOUND, ArrowParquet_LIBRARIES, ArrowParquet_INCLUDE_DIR, and ArrowParquet_FILES, the
# shared libraries of a wheel.
#
# Of packages that have CMake's files (Apache's, Conda's), else of Python's wheel, which holds headers and libraries: SULLAE_ARROW is
# the folder of a pyarrow. Debian has none; scripts/setup.sh puts one into build/arrow.
set(SULLAE_ARROW ${PROJECT_SOURCE_DIR}/build/arrow/pyarrow CACHE PATH "Folder of Python's pyarrow, whose Arrow C++ is taken where CMake finds none")
find_package(Parquet 23 CONFIG QUIET)
if(Parquet_FOUND)
  set(ArrowParquet_LIBRARIES Parquet::parquet_shared Arrow::arrow_shared)
  get_target_property(ArrowParquet_INCLUDE_DIR Arrow::arrow_shared INTERFACE_INCLUDE_DIRECTORIES)
  set(ArrowParquet_VERSION ${Parquet_VERSION})
else()
  find_path(ArrowParquet_INCLUDE_DIR parquet/arrow/reader.h PATHS ${SULLAE_ARROW}/include NO_DEFAULT_PATH)
  file(GLOB ArrowParquet_FILES ${SULLAE_ARROW}/libparquet.so.* ${SULLAE_ARROW}/libarrow.so.*)
  list(LENGTH ArrowParquet_FILES count)
  if(ArrowParquet_INCLUDE_DIR AND count EQUAL 2)
    file(STRINGS ${ArrowParquet_INCLUDE_DIR}/arrow/util/config.h line REGEX "#define ARROW_VERSION_STRING")
    string(REGEX REPLACE ".*\"(.*)\".*" "\\1" ArrowParquet_VERSION "${line}")
    set(ArrowParquet_LIBRARIES ${ArrowParquet_FILES})
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ArrowParquet REQUIRED_VARS ArrowParquet_LIBRARIES ArrowParquet_INCLUDE_DIR
                                  VERSION_VAR ArrowParquet_VERSION)
mark_as_advanced(ArrowParquet_INCLUDE_DIR)
