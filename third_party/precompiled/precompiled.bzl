"""Headers that every source includes, parsed once: half of the time to build gradc was theirs.

A source is compiled with `-include NAME.h`; the compiler finds NAME.h.gch beside it and takes that if it was made with the
same flags, else it parses the header. So the flags of a library and of its precompiled header come from one place.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    compiled = ctx.actions.declare_file(ctx.label.name + ".h.gch")
    ctx.actions.write(header, "".join(["#include \"%s\"\n" % part.path for part in ctx.files.headers]))
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = header.path,
        output_file = compiled.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts + ["-x", "c++-header"],
        include_directories = context.includes,
        quote_include_directories = depset(["."], transitive = [context.quote_includes]),
        system_include_directories = context.system_includes,
        use_pic = True,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        inputs = depset([header] + ctx.files.headers, transitive = [toolchain.all_files, context.headers]),
        outputs = [compiled],
        mnemonic = "Precompile",
        progress_message = "Precompiling " + header.short_path,
    )
    files = depset([header, compiled] + ctx.files.headers)
    return [
        DefaultInfo(files = files),
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = files)),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "headers": attr.label_list(allow_files = [".h"], mandatory = True),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
)
