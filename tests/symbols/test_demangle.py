"""Names of C++ and Rust made readable. The texts are what binutils' c++filt 2.40 prints, unless said otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyebpf.symbols.demangle import demangled
from pyebpf.symbols.frame import Frame

#: A name, and all of it.
WHOLE = {
    # Names, scopes and qualifiers of functions.
    "_Z1fv": "f()",
    "_ZL1fv": "f()",
    "_ZN1A1fEv": "A::f()",
    "_ZNK1A1fEv": "A::f() const",
    "_ZNKR1A1fEv": "A::f() const &",
    "_ZNVO1A1fEv": "A::f() volatile &&",
    "_ZN12_GLOBAL__N_11fEv": "(anonymous namespace)::f()",
    "_ZSt4cout": "std::cout",
    "_ZN1AUt0_1fEv": "A::{unnamed type#2}::f()",
    "_ZN1AC1I1BEEOT_": "A::A<B>(B&&)",
    "_ZN1AD0Ev": "A::~A()",
    "_ZN4Inh2CI13InhEiPKc": "Inh2::Inh(int, char const*)",
    "_ZN1A1fB5cxx11Ev": "A::f[abi:cxx11]()",
    "_ZN1AB5cxx11C1Ev": "A[abi:cxx11]::A()",
    "_ZDC1a1bE": "[a, b]",
    "_ZNW3foo1A1fEv": "A@foo::f()",
    # Operators.
    "_ZN1AaSERKS_": "A::operator=(A const&)",
    "_ZN1AltIiEEvT_": "void A::operator< <int>(int)",
    "_ZN1AnwEm": "A::operator new(unsigned long)",
    "_ZN1AcvPKcEv": "A::operator char const*()",
    "_ZN1AcvT_IiEEv": "A::operator int<int>()",
    "_Zli2_ay": 'operator"" _a(unsigned long long)',
    "_ZssRK1AS1_": "operator<=>(A const&, A const&)",
    # Substitutions.
    "_Z1fSsSt6vectorIcSaIcEESa": (
        "f(std::basic_string<char, std::char_traits<char>, std::allocator<char> >, "
        "std::vector<char, std::allocator<char> >, std::allocator)"
    ),
    "_ZNSsC1Ev": "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string()",
    "_Z1fSiSoSd": (
        "f(std::basic_istream<char, std::char_traits<char> >, std::basic_ostream<char, std::char_traits<char> >, "
        "std::basic_iostream<char, std::char_traits<char> >)"
    ),
    "_ZN1A1B1fES_S0_PS0_RKS1_": "A::B::f(A, A::B, A::B*, A::B* const&)",
    # Types.
    "_Z1fPFPFviEcE": "f(void (*(*)(char))(int))",
    "_Z1fRA3_A4_KPFviE": "f(void (* const (&) [3][4])(int))",
    "_Z1fM1AKFivE": "f(int (A::*)() const)",
    "_Z1fM1Ai": "f(int A::*)",
    "_Z1fPKDOLb1EEFvvE": "f(void (*)() noexcept(true) const)",
    "_Z1fPDoFvvE": "f(void (*)() noexcept)",
    "_Z1fVKiPVKcz": "f(int const volatile, char const volatile*, ...)",
    "_Z1fDv4_fCdDF16_U3fooi": "f(float __vector(4), double _Complex, _Float16, int foo)",
    "_Z1fDnDuDsDih": "f(decltype(nullptr), char8_t, char16_t, char32_t, unsigned char)",
    # Templates: results, packs, literals.
    "_Z1fIiEPFviET_": "void (*f<int>(int))(int)",
    "_Z1fIRiEvOT_": "void f<int&>(int&)",
    "_Z1fIJidEEvDpRKT_DpS1_": "void f<int, double>(int const&, double const&, int const, double const)",
    "_Z1fIJidEEvDp1AIT_EAsZT__c": "void f<int, double>(A<int>, A<double>, char [2])",
    "_Z1fILi3ELin3ELm3ELb1ELc97EL1E3ELDnEEvv": "void f<3, -3, 3ul, true, (char)97, (E)3, decltype(nullptr)>()",
    "_Z1f1AI1BI1CIiEEE": "f(A<B<C<int> > >)",
    "_Z1fIXadL_ZN1A1gEvEEXadL_Z1hvEEEvv": "void f<&A::g, &(h())>()",
    # Expressions.
    "_Z1fIiEDTplfp_Li1EET_": "decltype ({parm#1}+(1)) f<int>(int)",
    "_Z1fIiEvDTgtfp_Li3EE": "void f<int>(decltype (({parm#1}>(3))))",
    "_Z1fIiEDTcl1gfp_stT_EES0_": "decltype (g({parm#1}, sizeof (int))) f<int>(int)",
    "_Z1fIiEDTquLb1ELi2ELi3EET_": "decltype ((true)?(2) : (3)) f<int>(int)",
    "_Z1fIiEDTnw_T_piLi3EEET_": "decltype (new int(3)) f<int>(int)",
    "_Z1fIiEDTscT_ptfp_1xET_": "decltype (static_cast<int>({parm#1}->x)) f<int>(int)",
    "_Z1fIiEDTtlT_Li1ELi2EEES0_": "decltype (int{1, 2}) f<int>(int)",
    "_Z1fIJidEEvDTflplfp_EDpT_": "void f<int, double>(decltype ((...+{parm#1})), int, double)",
    "_Z1fIJidEEvDTfRplfp_Li1EEDpT_": "void f<int, double>(decltype (({parm#1}+...+(1))), int, double)",
    "_Z1fIiEDTcl7declvalIRT_EEEv": "decltype ((declval<int&>)()) f<int>()",
    # Of local things.
    "_ZZ1fvEN1A1gEv": "f()::A::g()",
    "_ZZ1fvE1x_0": "f()::x",
    "_ZZ1fvEs": "f()::string literal",
    "_ZZN1A1fEiEd0_NKUlvE_clEv": "A::f(int)::{default arg#2}::{lambda()#1}::operator()() const",
    "_ZZ1fvENKUliE_clEi": "f()::{lambda(int)#1}::operator()(int) const",
    "_ZZ1fIiEvT_ENKUlT_E0_clIdEEDaS0_": "auto f<int>(int)::{lambda(auto:1)#2}::operator()<double>(double) const",
    "_ZZ1fvENKUlTyT_iE_clIiEEDaS_i": "auto f()::{lambda<typename $T0>($T0, int)#1}::operator()<int>(int, int) const",
    # `S1_` stands for f's T_ as well as for g's.
    "_Z1fIZ1gIiEvT_EUlvE_EvS1_": "void f<g<int>(int)::{lambda()#1}>(g<int>(int)::{lambda()#1})",
    # What compilers make.
    "_ZTV1A": "vtable for A",
    "_ZTT1A": "VTT for A",
    "_ZTI1A": "typeinfo for A",
    "_ZTS1A": "typeinfo name for A",
    "_ZTC1A0_1B": "construction vtable for B-in-A",
    "_ZThn16_N1A1fEv": "non-virtual thunk to A::f()",
    "_ZTv0_n24_N1A1fEv": "virtual thunk to A::f()",
    "_ZTch0_h16_N1A1fEv": "covariant return thunk to A::f()",
    "_ZGVZ1fvE1x": "guard variable for f()::x",
    "_ZTW1x": "TLS wrapper function for x",
    "_ZTH1x": "TLS init function for x",
    "_ZGTtnam": "transaction clone for operator new[](unsigned long)",
    # Suffixes.
    "_Z1fv.isra.0.cold": "f() [clone .isra.0] [clone .cold]",
    "_Z1fv.constprop.0.part.1": "f() [clone .constprop.0] [clone .part.1]",
    "_Z1fv.llvm.123": "f() [clone .llvm.123]",
    # Rust.
    "_RNvCskwGfYPst2Cb_3foo16example_function": "foo[ef17931c9e9b4641]::example_function",
    "_RINvC3foo3barKj4_Kan1_Kb1_Kc41_KpE": "foo[0]::bar::<4: usize, -1: i8, true: bool, 'A': char, _>",
    "_RNCNvC3foo3bars_0B3_": "foo[0]::bar::{closure#1}",
    "_RNvXC3fooNtB2_1SNtB2_1T1m": "<foo[0]::S as foo[0]::T>::m",
    "_RINvC3foo3barDNtB2_1Tp1AlEL_E": "foo[0]::bar::<dyn foo[0]::T<A = i32>>",
    "_RINvC3foo3barFUKCiEuE": 'foo[0]::bar::<unsafe extern "C" fn(isize)>',
    "_RINvC3foo3barFG_RL0_hEuE": "foo[0]::bar::<for<'a> fn(&'a u8)>",
    "_RINvC3foo3barTlEAlj3_SlPlOhQzE": "foo[0]::bar::<(i32,), [i32; 3: usize], [i32], *const i32, *mut u8, &mut !>",
    "_ZN4core3fmt9Formatter3new17h0123456789abcdefE": "core::fmt::Formatter::new::h0123456789abcdef",
}

#: Names that c++filt 2.40 does not read, or reads otherwise. The first ones are as LLVM's demangler has them.
OTHERWISE = {
    "_ZN4llvm1fI1ATnNSt9enable_ifIXtlT_EEbE4typeELb1EEEvPS1_": "void llvm::f<A, true>(A*)",
    "_Z5smallITk5SmallcET_S0_": "char small<char>(char)",
    "_ZSt1fIUliE_EvT_": "void std::f<{lambda(int)#1}>({lambda(int)#1})",
    "_Z1fIiEDTnxfp_ET_": "decltype (noexcept {parm#1}) f<int>(int)",
    "_ZN1AcvSt6vectorIT_SaIS1_EEIiEEv": "A::operator std::vector<int, std::allocator<int> ><int>()",
    "_Z1fILZ1gvE1E3EEvv": "void f<(g()::E)3>()",
    # A pack without elements leaves no comma.
    "_Z1fIJEEvDpT_i": "void f<>(int)",
    # Data of a function; with versions.
    "_ZZ4mainE1x.0": "main::x [clone .0]",
    "_ZSt4cout@@GLIBCXX_3.4": "std::cout@@GLIBCXX_3.4",
    "_ZNSt6localeC1Ev@GLIBCXX_3.4": "std::locale::locale()@GLIBCXX_3.4",
    # Rust's own compiler shows text, and what is printable.
    "_RINvC3foo3barKRe616263_KRAh1_h2_EE": 'foo[0]::bar::<"abc", {&[1: u8, 2: u8]}>',
    "_RINvNtC1lu9gre_6ka8iu6ma_hiaKcdf_Kca_E": "l[0]::größe::maß::<'ß': char, '\\n': char>",
    "_ZN42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE": (
        "<&T as core::fmt::Debug>::fmt::h0123456789abcdef"
    ),
    "_ZN9ma$udf$$C3new17h0123456789abcdefE.llvm.99": "maß$C::new::h0123456789abcdef",
}

#: Names without their parameters.
SHORT = {
    "_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector<int, std::allocator<int> >::push_back",
    "_ZNKSt6vectorISsSaISsEE4sizeEv": "std::vector<std::string, std::allocator<std::string> >::size",
    "_ZNSsC1Ev": "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string",
    "_Z1fIiEPFviET_": "f<int>",
    "_ZN1AcvT_IiEEv": "A::operator int<int>",
    "_ZZN1A1fEiENKUlvE_clEv": "A::f(int)::{lambda()#1}::operator()",
    "_ZThn16_N1A1fEi": "non-virtual thunk to A::f",
    "_Z1fv.isra.0.cold": "f [clone .isra.0] [clone .cold]",
    "_Z1fv.llvm.123": "f",
    "_Z1fiPKc@@V_1": "f@@V_1",
    "_RNvCskwGfYPst2Cb_3foo16example_function.llvm.99": "foo::example_function",
    "_RNvC3foo3bar.cold": "foo::bar [clone .cold]",
    "_RINvC3foo3barAlj3_Kj4_E": "foo::bar::<[i32; 3], 4>",
    "_ZN4core3fmt9Formatter3new17h0123456789abcdefE": "core::fmt::Formatter::new",
}

#: Text that is not mangled, or ends early.
LEFT = [
    "main",
    "_start",
    "_Z",
    "_ZN",
    "_ZNE",
    "_R",
    "_RN",
    "_RNv",
    "__libc_start_main",
    "_ZN1A",
    "_Z1",
    "_Z2f",
    "_Z0v",
    "_Z1fX",
    "_Z1fS0_",
    "_Z1fT_",
    "_ZN1AC9Ev",
    "_ZC1v",
    "_ZNC1Ev",
    "_Z1fi!",
    "_Z1fv.!",
    "_Z1fM1A",
    "_Z1fA3i",
    "_ZTX1A",
    "_ZTV",
    "_RNvC3foo3ba",
    "_RC03foo",
    "_RNvB_3foo",
    "_RINvC3foo3barKj_",
    "_RINvC3foo3barRL0_hE",
    "_RB1_",
    "xx",
]


@pytest.mark.parametrize("name", [*WHOLE, *OTHERWISE])
def test_all_of_a_name(name: str) -> None:
    """With parameters."""
    assert demangled(name, parameters=True) == (WHOLE | OTHERWISE)[name]


@pytest.mark.parametrize("name", SHORT)
def test_names_without_parameters(name: str) -> None:
    """As in stacks."""
    assert demangled(name) == SHORT[name]


@pytest.mark.parametrize("name", LEFT)
def test_other_text_is_left_as_it_is(name: str) -> None:
    """Whatever it begins like."""
    assert demangled(name, parameters=True) == name


def test_names_of_real_libraries() -> None:
    """Names of libstdc++, LLVM, Clang, Boost and Rust's compiler, and those of programs that use C++20."""
    lines = (Path(__file__).parents[1] / "data" / "demangled.txt").read_text(encoding="utf-8").splitlines()
    expected = [tuple(line.split("\t")) for line in lines]
    found = [(name, demangled(name), demangled(name, parameters=True)) for name, _, _ in expected]
    assert found == expected


def test_frames_have_readable_labels():
    """A frame's name is the symbol, what is printed of it the readable one; a line stands behind it."""
    frame = Frame("_ZNSt6vectorIiSaIiEE9push_backERKi", 16, "/usr/lib/x.so", 4096, "/src/a/b.cc", 7)
    assert frame.label == "std::vector<int, std::allocator<int> >::push_back"
    assert str(frame) == f"{frame.label}+0x10 b.cc:7"
    assert frame.with_line().label == f"{frame.label}:b.cc:7"
    assert frame._replace(inlined=True).label == f"{frame.label} (inlined)"
    assert Frame("main", 0, "", 1).with_line().label == "main"
