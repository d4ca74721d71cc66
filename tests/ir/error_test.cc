// The error type: one expression to make, stable kinds, notes that survive amending.
#include "ir/base/error.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc {
namespace {

Expected<int> failing() {
  return Failure(ErrorKind::Arity, "operator 'add' takes " + Twine(2) + " inputs")
      .at(NodeId(4))
      .note("first")
      .note("second", Place{NodeId(1), 7});
}

TEST(ErrorCatalogue, OneExpressionMakesIt) {
  Expected<int> result = failing();
  ASSERT_FALSE(result);
  handleAllErrors(result.takeError(), [](const GradcError &error) {
    EXPECT_EQ(error.kind, ErrorKind::Arity);
    EXPECT_EQ(error.place.node, NodeId(4));
    EXPECT_EQ(error.place.offset, -1);
    ASSERT_EQ(error.notes.size(), 2u);
    EXPECT_EQ(error.notes[1].place.offset, 7);
  });
}

TEST(ErrorCatalogue, ARemedyIsANoteInWords) {
  Error error = Failure(ErrorKind::Unreachable, "no way").remedy(Remedy::StopGradient, "stop there", "y");
  handleAllErrors(std::move(error), [](const GradcError &info) {
    ASSERT_EQ(info.notes.size(), 1u);
    EXPECT_EQ(info.notes[0].text, "stop there");
    EXPECT_EQ(info.notes[0].remedy, Remedy::StopGradient);
    EXPECT_EQ(info.notes[0].subject, "y");
  });
}

TEST(ErrorCatalogue, LogIsMessageKindNotes) {
  EXPECT_EQ(toString(failing().takeError()), "operator 'add' takes 2 inputs [arity]\nnote: first\nnote: second");
}

TEST(ErrorCatalogue, KindsHaveDistinctRows) {
  std::vector<std::string> rows;
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::Internal); ++kind) {
    EXPECT_FALSE(errorKindName(static_cast<ErrorKind>(kind)).empty());
    StringRef row = errorRow(static_cast<ErrorKind>(kind));
    if (!row.empty()) rows.push_back(row.str());
  }
  EXPECT_EQ(errorKindName(ErrorKind::BadJson), "bad_json");
  EXPECT_EQ(errorRow(ErrorKind::BadJson), "E-33");
  EXPECT_EQ(errorRow(ErrorKind::BadEntry), "E-48");
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(std::adjacent_find(rows.begin(), rows.end()), rows.end());
}

TEST(ErrorCatalogue, AmendPassesSuccessAndForeignErrors) {
  bool wasCalled = false;
  EXPECT_FALSE(amend(Error::success(), [&](GradcError &) { wasCalled = true; }));
  EXPECT_EQ(
      toString(amend(createStringError(inconvertibleErrorCode(), "other"), [&](GradcError &) { wasCalled = true; })),
      "other");
  EXPECT_FALSE(wasCalled);
  EXPECT_EQ(toString(amend(Failure(ErrorKind::Io, "a"), [](GradcError &error) { error.message += "b"; })), "ab [io]");
}

}  // namespace
}  // namespace gradc
