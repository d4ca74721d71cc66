// Leaks that are not gradc's: clang's OpenMP library never frees what it keeps about its threads.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
extern "C" const char *__lsan_default_suppressions();
const char *__lsan_default_suppressions() { return "leak:libomp.so\n"; }
#endif
#endif
