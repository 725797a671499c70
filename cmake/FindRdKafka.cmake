# Kafka's client library: RdKafka_FOUND, RdKafka_LIBRARY.
find_path(RdKafka_INCLUDE_DIR librdkafka/rdkafka.h)
find_library(RdKafka_LIBRARY rdkafka)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(RdKafka REQUIRED_VARS RdKafka_LIBRARY RdKafka_INCLUDE_DIR)
