// What the archives define: functions and data of gradc's own, and instances of C++ templates, of which the linker
// keeps one of many. No name of C, where OpenMP's, BLAS's and libc's are. The archives to look at are the arguments.
#include <gtest/gtest.h>

#include <cstdio>
#include <regex>
#include <string>
#include <vector>

namespace {

std::vector<std::string> archives;

struct Symbol {
  std::string name;
  char type;

  /// One of several equal definitions.
  bool isWeak() const { return type == 'W' || type == 'V' || type == 'u' || type == 'w' || type == 'v'; }
};

std::vector<Symbol> symbolsOf(const std::string &archive) {
  std::vector<Symbol> symbols;
  FILE *pipe = popen(("nm --extern-only --defined-only --format=posix '" + archive + "'").c_str(), "r");
  if (!pipe) return symbols;
  char line[1 << 16];
  while (std::fgets(line, sizeof line, pipe)) {
    const std::string text = line;
    const size_t space = text.find(' ');
    if (space != std::string::npos && space + 1 < text.size() && text.back() == '\n' &&
        text.find(":\n") == std::string::npos)
      symbols.push_back({text.substr(0, space), text[space + 1]});
  }
  EXPECT_EQ(pclose(pipe), 0) << archive;
  return symbols;
}

TEST(Symbols, NothingButOurOwnIsDefined) {
  // Of namespace gradc: functions and data, vtables, type information, guards of function-local statics.
  const std::regex own("_Z(TV|TI|TS|TT|GV|GVZ|Z)?N[KVOR]*5gradc.*");
  for (const std::string &archive : archives) {
    const std::vector<Symbol> symbols = symbolsOf(archive);
    EXPECT_GE(symbols.size(), 1u) << archive;
    for (const Symbol &symbol : symbols) {
      if (symbol.isWeak()) {
        const bool isTemplate = symbol.name.starts_with("_Z") || symbol.name.starts_with("DW.ref.");
        EXPECT_TRUE(isTemplate) << archive << ": " << symbol.name;
      } else {
        EXPECT_TRUE(std::regex_match(symbol.name, own)) << archive << ": " << symbol.name;
      }
    }
  }
}

// The linker may take any of several equal functions, also one that needs instructions the machine does not have.
TEST(Symbols, WhatIsCompiledForMoreInstructionsIsSharedWithNobody) {
  int numSets = 0;
  for (const std::string &archive : archives) {
    if (archive.find("gemm_") == std::string::npos) continue;
    ++numSets;
    for (const Symbol &symbol : symbolsOf(archive)) {
      const bool isCode = symbol.type == 'W' || symbol.type == 'u';
      EXPECT_TRUE(!isCode || symbol.name.find("gradc_eigen_") != std::string::npos) << archive << ": " << symbol.name;
    }
  }
  EXPECT_EQ(numSets, 3);
}

// Loops are compiled for more by the attributes of functions that only ir/base/instruction_sets.h calls, and of
// functions that no other file can see.
TEST(Symbols, WideVectorsAreInFunctionsOfTheirOwn) {
  bool hasWide = false;
  for (const std::string &archive : archives) {
    if (archive.find("gemm_") != std::string::npos) continue;
    FILE *pipe = popen(("objdump --disassemble --no-show-raw-insn '" + archive + "'").c_str(), "r");
    ASSERT_TRUE(pipe);
    std::string function;
    char line[1 << 16];
    while (std::fgets(line, sizeof line, pipe)) {
      const std::string text = line;
      if (text.ends_with(">:\n")) function = text.substr(text.find('<') + 1);
      if (text.find("%ymm") == std::string::npos && text.find("%zmm") == std::string::npos) continue;
      const bool isOwn = function.find("6detail7runAvx2") != std::string::npos ||
                         function.find("6detail9runAvx512") != std::string::npos;
      hasWide |= isOwn;
      ASSERT_TRUE(isOwn || function.find("_GLOBAL__N_1") != std::string::npos) << archive << ": " << function;
    }
    EXPECT_EQ(pclose(pipe), 0) << archive;
  }
#if defined(__x86_64__)
  EXPECT_TRUE(hasWide);
#endif
}

}  // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  archives.assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
