// A host with a BLAS of its own: gradc neither calls nor replaces it.
#include "tests/host/network.h"

#include <gtest/gtest.h>

namespace {

int calls = 0;

}  // namespace

extern "C" {

void cblas_dgemm(...) { ++calls; }
void cblas_sgemm(...) { ++calls; }
void dgemm_(...) { ++calls; }
void sgemm_(...) { ++calls; }
void openblas_set_num_threads(int) { ++calls; }

}  // extern "C"

namespace {

TEST(BlasHost, KeepsItsOwn) {
  for (bool isDouble : {false, true}) EXPECT_FALSE(runNetwork(isDouble, 2, 1).empty());
  EXPECT_EQ(calls, 0);
  dgemm_();
  cblas_dgemm();
  EXPECT_EQ(calls, 2);
}

}  // namespace
