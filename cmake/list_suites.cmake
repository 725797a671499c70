# Run when a test program has been built: writes OUTPUT, which adds a test for each of the program's suites.
#   cmake -D PROGRAM=… -D PREFIX=… -D LIMIT=SECONDS -D OUTPUT=… -P list_suites.cmake
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed RESULT_VARIABLE result TIMEOUT 60)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests: ${result}")
endif()
# A suite is a line that begins at its beginning and ends with a dot, and perhaps a type behind it: "Fixture.".
string(REGEX MATCHALL "(^|\n)[^ \n]+\\." suites "${listed}")
set(script "")
foreach(suite IN LISTS suites)
  string(STRIP "${suite}" suite)
  string(REGEX REPLACE "\\.$" "" name "${suite}")
  string(APPEND script "add_test([==[${PREFIX}${name}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${suite}*]==])\n"
    "set_tests_properties([==[${PREFIX}${name}]==] PROPERTIES TIMEOUT ${LIMIT})\n")
endforeach()
file(WRITE ${OUTPUT} "${script}")
