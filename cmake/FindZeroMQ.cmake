# ZeroMQ with its C++ header: ZeroMQ_FOUND, ZeroMQ_LIBRARY.
find_path(ZeroMQ_INCLUDE_DIR zmq.hpp)
find_library(ZeroMQ_LIBRARY zmq)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZeroMQ REQUIRED_VARS ZeroMQ_LIBRARY ZeroMQ_INCLUDE_DIR)
