/* SPDX-License-Identifier: MIT */
/*
 * A guest that fits a boot sector: each of its CPUs takes numbered tickets and
 * writes each to the word of RAM that belongs to it, like tests/lib/tickets.c
 * with words of four bytes.  The one that has a multiple of 2^20 prints it in
 * hexadecimal on COM1.
 *
 *	0x500		tickets taken
 *	0x100000	WORDS words
 */
#define COUNTER 0x500
#define RAM 0x100000
#ifndef WORDS
#define WORDS 0x400000 /* 16 MiB */
#endif
#define STRIDE 0x9e3779b1
#define COM1 0x3f8

/* Where other CPUs start, in the SIPI's pages. */
#define START_PAGE 8
#define ICR 0xfee00300	    /* of the local APIC */
#define ICR_INIT 0xc4500    /* to all but self */
#define ICR_STARTUP 0xc4600 /* the same, with the page */

	.code16
	.globl _start
_start:
	cli
	xorw %ax, %ax
	movw %ax, %ds
	movw %ax, %ss
	movw $0x7c00, %sp
	/* A20 by the fast gate */
	inb $0x92, %al
	orb $2, %al
	andb $0xfe, %al
	outb %al, $0x92
	/* ljmp $0, $enter at START_PAGE */
	movb $0xea, START_PAGE << 12
	movw $enter, (START_PAGE << 12) + 1
	movw $0, (START_PAGE << 12) + 3
	movb $1, first

enter:
	cli
	xorw %ax, %ax
	movw %ax, %ds
	lgdt gdt_pointer
	movl %cr0, %eax
	orl $1, %eax
	movl %eax, %cr0
	ljmp $8, $start32

	.code32
start32:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	movl $0x7000, %esp
	xorl %eax, %eax
	xchgb %al, first
	testb %al, %al
	jz next
	movl $0x7c00, %esp
	movl $ICR_INIT, ICR
	movl $10000000, %ecx
1:	loop 1b
	movl $(ICR_STARTUP | START_PAGE), ICR

next:
	movl $1, %ebx
	lock xaddl %ebx, COUNTER
	imull $STRIDE, %ebx, %eax
	andl $(WORDS - 1), %eax
	incl %ebx
	movl %ebx, RAM(,%eax,4)
	testl $0xfffff, %ebx
	jnz next

	/* print %ebx and a new line */
	movl $8, %ecx
	movl %ebx, %edx
digit:
	roll $4, %edx
	movb %dl, %al
	andb $15, %al
	addb $'0', %al
	cmpb $'9', %al
	jbe put
	addb $('a' - '9' - 1), %al
put:
	call emit
	loop digit
	movb $'\n', %al
	call emit
	jmp next

emit:
	pushl %edx
	movw $COM1, %dx
	outb %al, %dx
	popl %edx
	ret

first:	.byte 0

	.align 8
gdt:
	.quad 0
	.quad 0x00cf9a000000ffff /* code, flat */
	.quad 0x00cf92000000ffff /* data, flat */
gdt_pointer:
	.word 23
	.long gdt

	.org 510
	.word 0xaa55
