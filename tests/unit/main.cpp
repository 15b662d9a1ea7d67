// main.cpp -- the main of the C++ tests, for both versions of Catch2
#define CATCH_CONFIG_RUNNER  // version 2 puts its own code where this is defined
#include "tests/unit/catch.h"

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
