# robin-map, a hash table in headers alone: RobinMap_FOUND, and the target tsl::robin_map.
find_package(tsl-robin-map CONFIG QUIET)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(RobinMap REQUIRED_VARS tsl-robin-map_DIR)
