// Which sanitizer the tests are compiled for: gcc has macros, clang features.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define GRADC_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define GRADC_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GRADC_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define GRADC_THREAD_SANITIZER 1
#endif
#endif

#if defined(GRADC_ADDRESS_SANITIZER) || defined(GRADC_THREAD_SANITIZER)
#define GRADC_HEAP_OF_SANITIZER 1
#endif
