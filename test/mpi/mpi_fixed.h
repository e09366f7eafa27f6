static void fixed_tests(void) {}
