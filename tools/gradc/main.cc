#include <cstdio>

int main() {
  std::fputs("gradc: nothing is implemented yet\n", stderr);
  return 2;
}
